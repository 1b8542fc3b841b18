// Package binarytest builds programs for tests: so small that they are built for several platforms
// in seconds, and with a module that they depend on.
package binarytest
