// Package krew writes the manifest by which krew, the package manager of kubectl, installs the
// plugin.
package krew
