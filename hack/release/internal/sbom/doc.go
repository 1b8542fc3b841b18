// Package sbom lists the modules of a program in the format of CycloneDX. The list has Go's
// standard library and every linked module, from the build information of the program.
package sbom
