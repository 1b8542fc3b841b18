// Package compile builds the programs of a release for all their platforms. Some builds take
// minutes, so it shows their progress.
package compile
