package queue

import "time"

// MinRuntimes are what counts for work whose queues say nothing of their own.
type MinRuntimes struct {
	Preempt, Reclaim time.Duration
	// FromLeaf is true where a reclaimMinRuntime is looked for from the leaf upwards, and not from one step below
	// the lowest common ancestor.
	FromLeaf bool
}

// Protection is the longest that any min-runtime guards work of a queue, counted from the start of its clock: from
// preemption inside the queue, or from reclaim by whichever other queue there may be. Work that is in no queue is only
// preempted.
func (b *Board) Protection(queue string, otherwise MinRuntimes) time.Duration {
	if queue == "" || !b.Used() {
		return otherwise.Preempt
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.check(queue).Reason != "" {
		return otherwise.Preempt
	}
	// From the top down, so that each level knows what it resolves to.
	path := b.path(queue)
	preempt, reclaim := otherwise.Preempt, otherwise.Reclaim
	longest := time.Duration(0)
	for i := len(path) - 1; i >= 0; i-- {
		spec := &b.queues[path[i]].Spec
		if d := spec.PreemptMinRuntime; d != nil {
			preempt = d.Duration
		}
		if d := spec.ReclaimMinRuntime; d != nil {
			reclaim = d.Duration
		}
		// A reclaimer may come from beside any level.
		if i == 0 || !otherwise.FromLeaf {
			longest = max(longest, reclaim)
		}
	}
	return max(longest, preempt)
}
