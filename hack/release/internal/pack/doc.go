// Package pack makes the files of a release from programs that have been built. It compiles nothing
// and asks no server, and the same programs and commit give the same bytes.
package pack
