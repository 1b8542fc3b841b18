// Package native has the PodGroups of scheduling.k8s.io, where a cluster serves them, pass for those of
// reprieve.dev: what reads and writes the one reads and writes the other (KEP-5710).
//
// Nothing here depends on the Go types of one version of that API. [Discover] finds the version, [FromObject]
// reads what all of them have, and [Client] writes conditions, which is all that their status has room for: what
// Reprieve needs to keep besides stands in conditions of its own.
//
// Kubernetes 1.35 has no PodGroups: pods name a group of a Workload. With [NewClientset] they are read as if they named a PodGroup
// of reprieve.dev, which internal/controller makes.
package native
