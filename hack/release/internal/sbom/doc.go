// Package sbom lists what a program is made of, in the format of CycloneDX: Go's standard library
// and every module that is linked in, as the program itself says.
package sbom
