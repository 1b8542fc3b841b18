// Package workloads tests groups of the cluster's own API, scheduling.k8s.io, as each version of Kubernetes has them: pods that name a
// group of a Workload (1.35), or a PodGroup (since).
package workloads
