// Package snapshot keeps the core's snapshot of the cluster in sync with the framework's snapshot.
// It reads only changed nodes, so the cost of a decision does not depend on the size of the
// cluster.
//
// A scheduling cycle that needs a decision does two things:
//
//  1. [Cache.Level] compares the framework's nodes and the disruption budgets with the previous
//     call. It reads a node again if the node's generation, a budget or a PodGroup of its pods has
//     changed. It also reads a node after [Cache.NodeChanged], for example because a pod is
//     terminating.
//  2. [Cache.View] returns a [View] for one preemptor. The View leaves out the room that is
//     reserved for other pods ([ReservedRoom]). It has the [core.Snapshot] for the search, and maps
//     nodes and pods of the core to nodes and pods of the framework.
//
// The status of a disruption budget may not include all terminating pods yet. The package then
// subtracts these pods from the allowed disruptions (draws.go). Static pods are separate units, and
// the core protects them.
//
// The Cache asks its [Sources] for facts that the framework's snapshot lacks. These are the
// PodGroup of a pod, the facts about the group, terminating pods, tolerations and queues. The
// scheduler implements these interfaces. The Cache stores the results with the node, and asks again
// only when it reads the node again.
//
// So if the results of a source change, the Cache must be informed by [Cache.GroupChanged],
// [Cache.NodeChanged] or [Cache.Invalidate]. Invalidate makes the Cache read everything again. Any
// goroutine may call these three methods. Only scheduling cycles may call the other methods, one at
// a time.
//
// The source [Delegation] is an exception: Level asks this source in every call. On a node without
// a delegated resource, any amount of the resource fits, and DynamicResources decides later.
//
// Units: amounts are milli-CPUs, bytes and counts, as in the framework's Resource. Times are
// nanoseconds since 1970. All amounts have the same dimensions: the resources of the nodes, and a
// spare one for resources that no node has (dimensions.go).
package snapshot
