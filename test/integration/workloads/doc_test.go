// Package workloads tests the groups of scheduling.k8s.io in each version of Kubernetes. In 1.35,
// pods name a group of a Workload; since then, they name a PodGroup.
package workloads
