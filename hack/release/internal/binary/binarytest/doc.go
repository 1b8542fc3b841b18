// Package binarytest builds programs for tests. They are so small that building them for several
// platforms takes seconds. They depend on a second module.
package binarytest
