// Package snapshot keeps the core's snapshot of the cluster in sync with the framework's snapshot.
// So the cost of a decision depends on the changes and not on the size of the cluster.
//
// A scheduling cycle that needs a decision does two things:
//
//  1. [Cache.Level] compares the framework's nodes and the disruption budgets with the last
//     call's. It reads a node again if its generation has changed, or if a budget or a PodGroup of
//     its pods has. The same holds if its pods become terminating or no longer are
//     ([Cache.NodeChanged]).
//  2. [Cache.View] returns a [View] for one preemptor, less the room that is reserved for others
//     ([ReservedRoom]). The View has the [core.Snapshot] for the search, and maps its nodes and
//     pods to the framework's.
//
// Disruption budgets allow less than their status says while the status does not include all
// terminating pods (draws.go). Static pods are units of their own, and the core protects them.
//
// For facts that the framework's snapshot lacks, the Cache asks its [Sources]. These are the
// PodGroup of a pod, the group's facts, terminating pods, tolerations and queues. The interfaces
// are small, and the scheduler implements them. An answer is stored with its node, and not asked
// for again before the node changes. So a source must report changes of its answers: by
// [Cache.GroupChanged], by [Cache.NodeChanged], or by [Cache.Invalidate], which makes the Cache
// read everything again. Any goroutine may call these three. All other methods belong to the
// scheduling cycles, which run one at a time. Only delegated resources are asked for at every
// Level: on a node without such a resource, any amount of it fits, and DynamicResources decides.
//
// Units: amounts are milli-CPUs, bytes and counts, as in the framework's Resource; times are
// nanoseconds since 1970. All amounts have the dimensions of the nodes, and a spare one for
// resources that no node has (dimensions.go).
package snapshot
