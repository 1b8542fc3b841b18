// Package product says what a release consists of: which commands, for which platforms, and how the
// files are named. All other packages are told from here.
package product
