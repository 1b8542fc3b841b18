// Package native makes the PodGroups of scheduling.k8s.io usable as PodGroups of reprieve.dev, in
// clusters that serve them (KEP-5710). The same code reads and writes both.
//
// The package does not depend on the Go types of one version of that API. [Discover] finds the
// version. [FromObject] reads the fields that all versions have. [Client] writes conditions,
// because the status has no room for anything else. Reprieve keeps further data in conditions of
// its own.
//
// Kubernetes 1.35 has no PodGroups: pods name a group of a Workload. [NewClientset] reads these
// pods as if they named a PodGroup of reprieve.dev. The package internal/controller creates that
// PodGroup.
package native
