// Package archive writes archives that are the same, byte by byte, for the same files and time:
// sorted, owned by root, and with nothing in them of the machine that packs.
package archive
