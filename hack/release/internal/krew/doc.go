// Package krew writes the manifest of the plugin for krew, the package manager of kubectl.
package krew
