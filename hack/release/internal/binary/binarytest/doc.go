// Package binarytest builds programs for tests. The programs are so small that a build for several
// platforms takes seconds. They import a second module, so that tests can check the list of
// modules.
package binarytest
