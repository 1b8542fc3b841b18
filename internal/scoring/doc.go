// Package scoring scores nodes for a pod by the criterion of fragmentation. The arguments of a
// profile list typical workloads. The score of a node says how much less of its free devices these
// workloads could not use if the pod were placed there.
//
// internal/core/fragmentation has the arithmetic, on amounts without names. This package converts
// the framework's nodes and pods to such amounts. It is used in two ways:
//
//   - The plugin's Score extension point asks a [Scorer], for single pods.
//   - The core gets the typical workloads from [MixOf], for the members of gangs and for
//     preemptors. The amounts then follow the resources of the core's snapshot.
//
// A [Scorer] never changes, so the cycles share it without a lock.
package scoring
