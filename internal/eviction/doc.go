// Package eviction applies a core.Decision: it evicts the victims, outside the scheduling cycle
// (KEP-4832). An eviction that has begun is completed even if the process ends.
//
// An [Order] is a Decision with the objects that its eviction needs. An [Outcome] is the result.
// Both are plain values. During the eviction, the Executor asks a [Scheduler] whether the order is
// still valid.
//
// The [Executor] makes the calls of one order in a fixed sequence. So a failed call changes as
// little as possible, and other processes can see which evictions have begun. The steps are:
//
//   - Dry run: if the API server has refused deletions in the namespace, test the deletion first.
//     See [Refusals].
//   - Nominations: write the preemptor's node to status.nominatedNodeName.
//   - Unbound victims: if a victim has a node but no binding yet, the scheduler returns the victim
//     to the scheduler's queue. No call to the API server is needed.
//   - Intents: for each PodGroup that is evicted as a whole, write the list of the pods to delete
//     (status.disruption) and its DisruptionTarget condition, in one write. The first delete
//     follows only after all intents are written. So if the API server refuses an intent, the
//     preemption can still be withdrawn.
//   - Pods: set the DisruptionTarget condition of each pod. Then delete the pod, with its UID as
//     precondition and with its grace period. The conditions of pods and groups name the preemptor
//     and the rule.
//
// If a call fails before the first delete, the Executor withdraws all intents. If a call fails
// later, it withdraws the intents of the groups without a delete. A group with a delete is evicted
// completely, even if the preemptor no longer exists.
//
// The [Finisher] completes the evictions of such groups. It finds intents that no execution works
// on, because a call failed or the process that wrote them ended. It deletes exactly the pods in
// these intents. When the last of these pods is gone, it ends the disruption.
package eviction
