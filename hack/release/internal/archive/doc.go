// Package archive writes reproducible archives: the same files and time produce the same bytes on
// every machine. Entries are sorted by name and owned by root.
package archive
