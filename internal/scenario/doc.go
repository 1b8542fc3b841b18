// Package scenario makes the input of a simulation of a cluster as it is, for `kubectl reprieve simulate`.
//
// Objects come in as an [inventory.Inventory], listed or read from a snapshot file; internal/whatif says which workloads they are, as a
// scheduler that saw them would. Of these [FromCluster] makes a [simulation.Input], a value without Kubernetes types: the nodes
// with what they have, the [Queues], the work that runs and where, and the work that waits. [Facts] say what was counted in and left
// out. What objects do not say, how long work goes on, is chosen by rules that [Assumptions] name. [FromLog] does the same with
// the first cluster of a decision log and all that came later there, of which the log tells how long it ran. [AddTrace] has the
// work of a trace come on top of either.
package scenario
