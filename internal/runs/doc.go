// Package runs reads the members of groups into the records of internal/engine, which follow how
// long each group is whole. Protections such as min-runtime count from that time.
//
// The engine is plain Go without Kubernetes, so this package translates: pods and PodGroups go in,
// and the run of a group comes out. It has no state of its own.
package runs
