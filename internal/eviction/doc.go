// Package eviction applies a core.Decision: it evicts the victims, outside the scheduling cycle
// (KEP-4832). Every eviction that has begun is completed, even if the process ends.
//
// An [Order] is a Decision with the objects that its eviction needs. An [Outcome] is the result.
// Both are values. During the eviction, the Executor asks the [Scheduler] that submitted the order
// whether the order is still valid.
//
// The [Executor] makes the calls of one order in a fixed sequence. A call that fails therefore
// leaves little behind, and other processes can see which evictions have begun:
//
//   - Dry run: if a deletion may be refused, the API server is asked before anything changes. See
//     [Refusals].
//   - Nominations: the preemptor's node is written to status.nominatedNodeName.
//   - Unbound victims: the scheduler returns victims that are not bound yet to its queue. No call
//     is made for them.
//   - Intents: each victim PodGroup gets its DisruptionTarget condition and, in the same write, the
//     list of the pods to delete (status.disruption). All intents are written before the first
//     delete, so that a refusal shows while the preemption can still be withdrawn.
//   - Pods: each pod gets a DisruptionTarget condition of its own. Then it is deleted with its UID
//     as precondition and with its own grace period. Both conditions name the preemptor and the
//     rule.
//
// A failure before the first delete withdraws all intents. A later failure withdraws the intents of
// the groups without a delete. Once a delete was sent for a group, the whole group is evicted, even
// if the preemptor no longer exists.
//
// The [Finisher] completes such groups. It finds intents that no execution works on, because a call
// failed or because the process that wrote them ended. It deletes exactly the pods on their lists.
// It also ends every disruption when the last pod of the list is gone.
package eviction
