// Package architecture compares the packages' imports with the picture of them in
// docs/architecture.md.
package architecture
