// Package krew writes the manifest of the plugin for krew, the package manager for plugins of
// kubectl. Users install the plugin by this manifest.
package krew
