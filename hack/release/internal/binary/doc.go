// Package binary reads what the go command has written into a program: for which platform it is,
// and which modules it is made of.
package binary
