// Package archive writes reproducible archives: the same files and time give the same bytes.
// Entries are sorted, owned by root, and independent of the machine.
package archive
