// Package compile builds the programs of a release for all their platforms. It shows the progress,
// because some programs compile for minutes.
package compile
