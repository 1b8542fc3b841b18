// Package runs determines since when a group has enough running members: the start of its run.
// Protections such as min-runtime count from the start.
//
// The records of runs are in internal/engine, which does not depend on Kubernetes. This package
// reads pods and PodGroups, passes facts about them to the engine, and returns the run. It has no
// state.
package runs
