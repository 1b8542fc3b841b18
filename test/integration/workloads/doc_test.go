// Package workloads tests the PodGroups of scheduling.k8s.io on each supported version of
// Kubernetes. In version 1.35, pods name a group within a Workload. In later versions, they name a
// PodGroup.
package workloads
