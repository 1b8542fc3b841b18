// Package admission decides which workload waits for what, and whose turn it is.
//
// A [List] has all of it, by workload:
//
//   - why a workload waits ([List.Wait], [List.WaitUntil], [List.WaitForVictims]): room that is reserved for others, its
//     queue, a protection, pods on their way out, calls that make room for it. What ends a cause tells the list, and the
//     list says which workloads are to be tried again.
//   - until when a pod on its way out is counted on to go ([Departure]), which is the pod's own cause: those that wait for
//     it are found by [List.Stays].
//   - turns ([List.Enter], [List.LetThrough]): the work of queues is let through one after the other, always the first of
//     the queue that is furthest below its share, because an order that changes with each placement cannot be that of the
//     scheduler's queue, a heap. As long as all find their places, several go at a time, each with a seat in that queue
//     ([List.Seat]); when one does not, those after it are called back ([List.TurnAway]). Work whose turn came to nothing
//     ([List.CameToNothing]) lets others go first for a while, those behind it in its queue too. Where there is room for all
//     that waits, none waits for its turn ([List.Pass]); what has no place yet is called back when there is not ([List.Recall]).
//   - failures in a row, and how long to back off after them.
//
// Beside it, [Unbound] records the preemptions that did not end in a binding, and how long their preemptors
// back off from the next one.
//
// [List.Forget] is the one place where all of it ends, on every way out.
//
// A decision is made on a picture of the cluster, and what it would wait for may have ended since. [List.Mark] before
// the picture is taken, handed to Wait after the decision, closes that gap: a cause that has ended since the mark does
// not have to be waited for.
//
// The package is plain Go: it has no clock and starts no goroutine. What drives it hands in the time, asks
// [List.NextLook] when to come back, and listens to [List.Wanted] for what comes earlier. So it can be driven by a
// scheduler, and in virtual time by a simulation. All methods may be called from any goroutine.
package admission
