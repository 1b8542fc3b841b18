// Package admission records why each workload waits, and decides whose turn it is in the queues.
//
// A [List] holds this state by workload:
//
//   - Causes: why a workload waits ([List.Wait], [List.WaitUntil], [List.WaitForVictims]). Examples
//     are reserved room, its queue, a protection, terminating pods and evictions under way. When a
//     cause ends, the list returns the workloads to retry.
//   - Departures: the time until which others count on a terminating pod to end ([Departure]). It
//     is a cause of the pod itself; [List.Stays] finds the workloads that wait for the pod.
//   - Turns ([List.Enter], [List.LetThrough]): work in queues is admitted one workload at a time.
//     The next one is the first of the queue that is furthest below its share.
//   - Failures in a row, and how long to back off after them.
//
// Turns exist because their order changes with each placement, and the scheduler's queue, a heap,
// cannot have such an order. While all workloads find places, a batch of several is admitted, and
// keeps its order in that queue. When one finds no place, the ones after it are called back
// ([List.TurnAway]). After a failed turn ([List.CameToNothing]), a workload lets others go first
// for a while, also those behind it in its queue.
//
// If there is room for all waiting work, new workloads get a free pass ([List.Pass]). When the room
// is no longer plenty, workloads with a free pass but no place are called back ([List.Recall]).
//
// [Unbound] records the preemptions that did not end in a binding, and how long their preemptors
// back off from the next one.
//
// [List.Forget] ends all state of a workload.
//
// A decision reads a snapshot of the cluster, and a cause may end before the decision does. Call
// [List.Mark] before taking the snapshot, and pass the mark to Wait. If the cause has ended since
// the mark, the workload does not wait, so there is no lost wake-up.
//
// The package has no clock and starts no goroutine. The caller passes the time, asks
// [List.NextLook] when to call again, and receives from [List.Wanted] for earlier changes. So a
// scheduler can drive it, and so can a simulation in virtual time. All methods may be called from
// any goroutine.
package admission
