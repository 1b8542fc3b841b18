// Package scenario creates the input of a simulation from a cluster, for `kubectl reprieve
// simulate`.
//
// The objects of the cluster are an [inventory.Inventory], listed from the API server or read from
// a snapshot file. internal/whatif groups them into workloads, as a scheduler would. [FromCluster]
// converts them to a [simulation.Input], a value without Kubernetes types. It has the nodes, the
// [Queues], the running work with its nodes, and the pending work. [Facts] counts the objects that
// were used and left out.
//
// Objects do not tell how long work runs. [Assumptions] set that.
//
// [FromLog] begins with the first cluster of a decision log and adds the work that arrived later.
// The log tells how long that work ran. [AddTrace] adds the work of a trace to either.
package scenario
