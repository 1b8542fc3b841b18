// Package compile builds the programs of a release for all their platforms, and shows how far it
// is: some compile for minutes.
package compile
