// Package sbom writes a software bill of materials in the format of CycloneDX. It lists Go's
// standard library and the modules that are linked into programs. The modules come from the build
// information of the programs.
package sbom
