// Package scenario creates the input of a simulation from a cluster, for `kubectl reprieve
// simulate`.
//
// The objects of the cluster are an [inventory.Inventory], listed from the API server or read from
// a snapshot file. internal/whatif groups their pods into workloads, as a scheduler would.
// [FromCluster] converts them to a [simulation.Input], which has no Kubernetes types. The input has
// the nodes, the queues ([Queues]), the running work with its nodes, and the pending work. [Facts]
// counts the objects that were used and left out. [Assumptions] set the running times, because
// objects do not contain them.
//
// [FromLog] starts with the first cluster of a decision log and adds the work that arrived later.
// The log shows how long that work ran. [AddTrace] adds the work of a trace to the input of
// FromCluster or FromLog.
package scenario
