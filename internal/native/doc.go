// Package native reads and writes the PodGroups of scheduling.k8s.io (KEP-5710) as PodGroups of
// reprieve.dev. So the rest of the code needs only the type of reprieve.dev.
//
// The package works with several versions of scheduling.k8s.io, so it does not use the Go types of
// a single version. [Discover] finds the version that the cluster serves. [FromObject] converts the
// fields that all versions have. [Client] reads PodGroups and writes their status. That status has
// only conditions, so Reprieve stores further data in its own conditions; see [ConditionStarted].
//
// Kubernetes 1.35 has no PodGroups. Its pods name a group of a Workload instead. [NewClientset]
// reads such pods as if they named a PodGroup of reprieve.dev, and internal/controller creates that
// PodGroup.
package native
