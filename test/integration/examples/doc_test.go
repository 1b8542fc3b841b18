// Package examples tests the examples in examples/, and the manifests in docs/gangs.md and
// docs/controllers.md. It applies them without changes, on the playground of docs/playground.md.
package examples
