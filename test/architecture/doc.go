// Package architecture holds the packages' imports against the picture of them in docs/architecture.md.
package architecture
