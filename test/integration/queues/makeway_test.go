package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestMakingWayAtALimit tests a preemptor whose queue has reached the limit of a parent queue. The
// scheduler must evict less important work that counts against this limit, although the node has
// free room. Other work must stay. No pod may start before the victim is gone.
func TestMakingWayAtALimit(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	const limit = 4
	c.follow(func(b *ledger) {
		used := int64(0)
		for queue, a := range b.accounts(gpusOf) {
			if queue == "a" || queue == "b" {
				used += a.allocated
			}
		}
		if used > limit {
			c.Errorf("%d GPUs are used below a limit of %d", used, limit)
		}
	})
	ofA := map[string]string{v1alpha1.LabelQueue: "a"}
	// full fills the queue top up to its limit: with one pod of high priority and two pods of low
	// priority in the queue a. Another queue has a pod too.
	full := func(c *cluster) {
		c.queue("top", "limit: {nvidia.com/gpu: 4}")
		c.queue("a", "parent: top")
		c.queue("b", "parent: top")
		c.queue("beside")
		c.known("top", "a", "b", "beside")
		c.pod("beside-0", 1, "low", map[string]string{v1alpha1.LabelQueue: "beside"})
		c.pod("a-high", 2, "high", ofA)
		c.Runs("a-high", 1)
		c.pod("a-low-0", 1, "low", ofA)
		c.Runs("a-low-0", 1)
		c.pod("a-low-1", 1, "low", ofA)
		c.Runs("a-low-1", 1)
	}
	c.scene("for a pod", func(c *cluster) {
		full(c)
		c.pod("a-next", 1, "high", ofA)
		c.Runs("a-next", 1)
		c.Runs("a-low", 1)
		c.Runs("beside-0", 1)
	})
	c.scene("for a gang", func(c *cluster) {
		full(c)
		c.team(team{name: "a-team", queue: "a", class: "high", members: 2, minCount: 2, gpus: 1})
		c.goes("a-low-0", "a-low-1")
		c.Runs("a-high", 1)
		c.Runs("beside-0", 1)
	})
	c.scene("for a queue that has less than its share below the limit", func(c *cluster) {
		full(c)
		c.pods("b-late", "b", 2, 1, "low")
		c.Runs("b-late", 2)
		c.goes("a-low-0", "a-low-1")
		c.Runs("a-high", 1)
	})
	c.scene("not for work that is no more important", func(c *cluster) {
		full(c)
		since := time.Now()
		c.pod("a-equal", 1, "low", ofA)
		c.WaitsSaying("a-equal", `Queue "top" has a limit of 4 nvidia.com/gpu`)
		c.nobodyGoes(since)
	})
	c.scene("once a window has ended", func(c *cluster) {
		full(c)
		since := time.Now()
		c.queue("a", "parent: top", "preemptMinRuntime: 1h")
		c.known("a")
		c.pod("a-next", 1, "high", ofA)
		c.WaitsSaying("a-next", "waits until", "PreemptMinRuntime of queue a")
		// Choose a min-runtime that ends soon after the current time, regardless of how long the
		// previous steps took.
		window := soonOver(scheduledAt(c.Pod("a-low-0")))
		c.queue("a", "parent: top", fmt.Sprintf("preemptMinRuntime: %.0fs", window.Seconds()))
		c.Eventually("its window ends", func(ctx context.Context) string {
			if len(c.evicted(ctx, since)) == 0 {
				return "nobody goes"
			}
			return ""
		})
		c.Runs("a-next", 1)
	})
}
