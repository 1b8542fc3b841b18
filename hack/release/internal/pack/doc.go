// Package pack makes the files of a release from built programs. It compiles nothing and makes no
// network calls. The same programs and commit produce the same bytes.
package pack
