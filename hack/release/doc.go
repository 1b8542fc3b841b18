// Command release makes a release of Reprieve, without publishing anything. docs/releasing.md is
// for those who release.
//
//	release build      builds the programs for all platforms
//	release pack       makes archives, images, lists of modules, the krew manifest, the chart and the notes of them
//	release image      makes the image of one program
//	release chart      packs the Helm chart
//	release notes      prints what the release changes
//	release changelog  moves what is unreleased in CHANGELOG.md, and the fragments, to a section for a version
//
// It is a module of its own, so that nothing of it is a dependency of the product.
package main
