// Package snapshot keeps the core's picture of the cluster level with the framework's snapshot, so that a decision
// costs what has changed since the last one and not what the cluster holds.
//
// A scheduling cycle that needs a decision does two things:
//
//  1. [Cache.Level] compares the framework's nodes and the disruption budgets with those of the last time. A node is
//     read again where its generation has changed, where a budget or a PodGroup of its pods has, or where its pods are
//     on their way out, or are not any more ([Cache.NodeChanged]).
//  2. [Cache.View] takes a [View] for one preemptor, less the room that it has to leave to others ([Promise]). The View
//     has the [core.Snapshot] for the search, and finds the framework's nodes and pods behind what the search names.
//
// Disruption budgets allow less than their status says as long as that does not account for pods on their way out
// (draws.go). Static pods are units of their own, which the core protects.
//
// What the framework's snapshot does not say, the Cache asks its [Sources]: the PodGroup that a pod counts for, the
// group's facts, which pods are on their way out, tolerations, queues. These interfaces are small, and the scheduler
// implements them. What a source says is taken over with the node that it concerns and is not asked for again before
// that node changes, so what changes an answer tells the Cache: [Cache.GroupChanged], [Cache.NodeChanged], or
// [Cache.Invalidate], which has everything read anew. These three may be called by any
// goroutine. All else belongs to the scheduling cycles, which come one at a time. Only which resources are delegated is asked for at
// every Level: a node without such a resource has room for any number of it, and DynamicResources decides.
//
// Units: amounts are milli-CPUs, bytes and counts, as in the framework's Resource; times are nanoseconds since 1970.
// The dimensions of all amounts are those of the nodes, and a spare one for what no node has (dimensions.go).
package snapshot
