// Command release makes the files of a release of Reprieve. It publishes nothing. docs/releasing.md
// describes the process.
//
//	release build      builds the programs for all platforms
//	release pack       makes archives, images, module lists, the krew manifest, chart and notes
//	release image      makes the image of one program
//	release chart      packs the Helm chart
//	release notes      prints the changes in the release, for its page
//	release changelog  moves the unreleased changes to a section for a version
//
// The command is a separate Go module, so that its libraries are not dependencies of the scheduler.
package main
