// Package binary reads the build information that the go command embeds in a program, such as the
// platform and the linked modules.
package binary
