package queue

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// MinRuntimes are the defaults for work whose queues set no min-runtimes.
type MinRuntimes struct {
	Preempt, Reclaim time.Duration
	// FromLeaf starts the lookup of reclaimMinRuntime at the leaf. Otherwise it starts one step
	// below the lowest common ancestor.
	FromLeaf bool
}

// Protection returns the longest time for which min-runtimes protect work of a queue from
// preemption and from reclaim by any other queue. The time is counted from the start of the work.
// Work in no queue can only be preempted.
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
