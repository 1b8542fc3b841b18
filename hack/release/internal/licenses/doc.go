// Package licenses gathers the licences of the modules that are linked into programs. Most licences
// require that their text accompanies every copy.
package licenses
