// Package examples plays examples/ and the manifests of docs/gangs.md and docs/controllers.md as they stand there, on the
// playground of docs/playground.md.
package examples
