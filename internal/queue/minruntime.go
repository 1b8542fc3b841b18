package queue

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

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
	if b.tree == nil {
		b.tree, _ = fairshare.NewTree(0, b.described(nil))
	}
	_, longest := b.tree.LongestMinRuntime(b.tree.LeafOf(queue), int64(otherwise.Preempt), int64(otherwise.Reclaim), otherwise.FromLeaf)
	return time.Duration(longest)
}
