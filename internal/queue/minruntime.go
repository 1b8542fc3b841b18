package queue

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// MinRuntimes are the default min-runtimes, for work whose queues set none.
type MinRuntimes struct {
	Preempt, Reclaim time.Duration
	// FromLeaf is true if the lookup of reclaimMinRuntime starts at the leaf queue. If it is false,
	// the lookup starts one step below the lowest common ancestor of the preemptor's and the
	// victim's queue.
	FromLeaf bool
}

// Protection returns the longest time that min-runtimes protect the work of a queue, against
// preemption or against reclaim by any other queue. The time counts from the start of the work.
// Work in no queue cannot be reclaimed, so only preemption counts.
func (b *Ledger) Protection(queue string, otherwise MinRuntimes) time.Duration {
	if queue == "" || !b.Used() {
		return otherwise.Preempt
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tree == nil {
		b.tree, _ = fairshare.NewTree(0, b.described(nil))
	}
	_, longest := b.tree.LongestMinRuntime(b.tree.LeafOf(queue), int64(otherwise.Preempt), int64(otherwise.Reclaim), otherwise.FromLeaf)
	return time.Duration(longest)
}
