// Package licenses gathers the licences of the modules that are linked into programs. Most of them
// ask that their text accompanies all works made of them.
package licenses
