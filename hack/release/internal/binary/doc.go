// Package binary reads the build information that the go command writes into a program: the
// platform and the modules.
package binary
