// Command release makes a release of Reprieve, without publishing anything. docs/releasing.md
// describes the process.
//
//	release build      builds the programs for all platforms
//	release pack       makes archives, images, module lists, the krew manifest, chart and notes
//	release image      makes the image of one program
//	release chart      packs the Helm chart
//	release notes      prints the changes that the release has
//	release changelog  moves the unreleased changes to a section for a version
//
// It is a module of its own, so that its libraries are no dependencies of the product.
package main
