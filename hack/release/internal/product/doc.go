// Package product defines the contents of a release: the commands, their platforms, and the names
// of the files. All other packages take these from here.
package product
