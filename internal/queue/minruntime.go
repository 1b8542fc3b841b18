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

// Protection returns the longest protection of a queue's work by min-runtimes, against preemption
// and against reclaim by any other queue. It is counted from the start of the work. Work in no
// queue can only be preempted.
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
