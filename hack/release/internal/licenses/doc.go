// Package licenses collects the licences of the Go modules that are linked into programs. Most
// licences require that every copy of the module includes their text.
package licenses
