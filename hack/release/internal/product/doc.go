// Package product defines the contents of a release: the programs, their platforms, and the names
// of the files. The other packages of the release import these definitions.
package product
