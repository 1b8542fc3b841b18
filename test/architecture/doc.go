// Package architecture compares the imports of the packages with the list of packages in
// docs/architecture.md.
package architecture
