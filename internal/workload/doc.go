// Package workload names what is placed and preempted as one, a gang or a single pod, and says how it stands beside
// others. It is plain Go, so that what decides can be run without Kubernetes.
package workload
