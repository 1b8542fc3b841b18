// Package pack makes the files of a release from programs that have been built. It compiles nothing
// and makes no network calls. The same programs and commit give the same bytes.
package pack
