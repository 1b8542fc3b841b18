// Package examples applies examples/ and the manifests of docs/gangs.md and docs/controllers.md
// unchanged, on the playground of docs/playground.md.
package examples
