// Package admission decides which queued workload the scheduler tries next.
//
// Workloads in queues are admitted to scheduling in turns ([List.Enter], [List.Admit]). The
// next turn goes to the first workload of the queue that is furthest below its fair share. A
// workload's turn lasts from its admission until the scheduler has decided on it.
//
// Turns exist because each placement changes the order of the queues. The scheduler's own queue is
// a heap, and the order of a heap must not change while pods are in it. While all workloads find
// room, the List admits several together as a batch, which keeps its order in the scheduler's
// queue. If a workload finds no room, the workloads of the batch after it are recalled
// ([List.TurnAway]). After a failed turn ([List.TurnFailed]), a workload backs off: for a while,
// other workloads precede it, including workloads behind it in its queue.
//
// If there is room for all waiting work, new workloads get a free pass, which is an admission
// without a turn ([List.Pass]). When room becomes scarce, the List recalls workloads that have
// a free pass but no node ([List.Recall]).
//
// A List orders workloads that have a record in internal/engine. The engine also records the
// causes of waiting other than turns. [List.Forget] drops a workload from the List.
//
// The package has no clock and starts no goroutine. The caller passes the time, asks
// [List.GatheringEnds] when to call Admit, and gets a signal if Admit may have work earlier. So
// both a scheduler and a simulation in virtual time can use it. All methods are safe for
// concurrent use.
package admission
