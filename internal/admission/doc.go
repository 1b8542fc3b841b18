// Package admission decides whose turn it is in the queues.
//
// Work in queues is admitted one workload at a time ([List.Enter], [List.Admit]). The next one
// is the first of the queue that is furthest below its share.
//
// Turns exist because their order changes with each placement, and the scheduler's queue, a heap,
// cannot have such an order. While all workloads find places, a batch of several is admitted, and
// keeps its order in that queue. When one finds no place, the ones after it are called back
// ([List.TurnAway]). After a failed turn ([List.TurnFailed]), a workload lets others go first
// for a while, also those behind it in its queue.
//
// If there is room for all waiting work, new workloads get a free pass ([List.Pass]). When the room
// is no longer plenty, workloads with a free pass but no place are called back ([List.Recall]).
//
// A List is the order of the workloads in the records of internal/engine: only workloads that are
// present there enter it, and [List.Forget] drops one. Causes of waiting other than turns are in
// those records.
//
// The package has no clock and starts no goroutine. The caller passes the time, asks
// [List.GatheringEnds] when to call again, and is told of earlier changes by a function. So a
// scheduler can drive it, and so can a simulation in virtual time. All methods may be called from
// any goroutine.
package admission
