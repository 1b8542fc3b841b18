package queues

import (
	"syscall"
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// restart kills the scheduler, calls the functions in meanwhile, and starts the scheduler again.
func (c *cluster) restart(meanwhile ...func()) {
	c.Helper()
	scheduler := c.Run.Component(playground.Scheduler)
	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		c.Fatal(err)
	}
	for _, f := range meanwhile {
		f()
	}
	if err := scheduler.Start(c.Context()); err != nil {
		c.Fatal(err)
	}
}

// TestLimitOverRestart kills the scheduler when a queue has reached its limit, and while it
// approaches its limit. After each restart, the scheduler must count the running work before it
// places further work.
func TestLimitOverRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	// placed checks the number of placed pods by name prefix. The scheduler never evicts a pod
	// because of a limit, so pods beyond the limit would still have a node.
	placed := func(c *cluster, want map[string]int) {
		c.Helper()
		for prefix, n := range want {
			if got := c.placed(prefix); got != n {
				c.Errorf("%d of %s have a node, want %d", got, prefix, n)
			}
		}
	}
	c.scene("at the limit", func(c *cluster) {
		c.queue("top", "limit: {nvidia.com/gpu: 6}")
		c.queue("a", "parent: top", "limit: {nvidia.com/gpu: 4}")
		c.queue("b", "parent: top")
		c.known("top", "a", "b")
		c.pods("a", "a", 4, 2, "")
		c.Runs("a-", 2)
		c.gang("team", "b", 2, 2, 2)
		c.groupSays("team", v1alpha1.ReasonQueueLimit)
		c.restart(func() { c.pods("late", "a", 1, 2, "") })
		c.WaitsSaying("late-0", `Queue "a" has a limit of 4 nvidia.com/gpu: 4 are in use and 2 more are needed`)
		c.pods("rest", "b", 1, 2, "")
		c.Runs("rest", 1)
		c.pods("more", "b", 1, 2, "")
		c.WaitsSaying("more-0", `Queue "top" has a limit of 6 nvidia.com/gpu: 6 are in use and 2 more are needed`)
		c.groupSays("team", v1alpha1.ReasonQueueLimit, `Queue "top" has a limit of 6`)
		placed(c, map[string]int{"a-": 2, "late": 0, "rest": 1, "more": 0, "team": 0})
		c.shows("top", "6", "18", "6")
	})
	c.scene("on the way there", func(c *cluster) {
		c.queue("storm", "limit: {nvidia.com/gpu: 5}")
		c.known("storm")
		for _, round := range []string{"first", "second", "third"} {
			c.pods("storm-"+round, "storm", 6, 1, "")
			c.restart()
		}
		c.Runs("storm", 5)
		c.pods("last", "storm", 1, 1, "")
		c.WaitsSaying("last-0", `Queue "storm" has a limit of 5 nvidia.com/gpu: 5 are in use`)
		placed(c, map[string]int{"storm": 5, "last": 0})
	})
}
