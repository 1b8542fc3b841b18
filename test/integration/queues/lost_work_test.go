package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestVictimsByLostWork checks that a profile which counts lost work evicts two young pods instead
// of an old one, which the default order would evict because it is one pod.
func TestVictimsByLostWork(t *testing.T) {
	t.Parallel()
	const order = "victimOrder: [BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods, Surplus, StartTime]"
	c := newCluster(t, 1,
		stage.ProfileConfig("by-priority", "{name: Reprieve, args: {}}"), stage.ProfileConfig("by-lost-work", "{name: Reprieve, args: {"+order+"}}"))
	c.classes()
	play := func(profile, evicted string, want int) {
		c.scene(profile, func(c *cluster) {
			c.pod("old-0", 4, "low", nil, by(profile))
			c.Runs("old", 1)
			c.Eventually("the old pod has run for a while", func(context.Context) string {
				if ago := time.Since(scheduledAt(c.Pod("old-0"))); ago < 8*time.Second {
					return fmt.Sprintf("for %v", ago)
				}
				return ""
			})
			for _, name := range []string{"young-0", "young-1"} {
				c.pod(name, 2, "low", nil, by(profile))
			}
			c.Runs("young", 2)
			c.pod("urgent-0", 4, "high", nil, by(profile))
			c.Runs("urgent", 1)
			// Evicted pods are deleted, and nothing makes them again.
			c.Runs(evicted, 0)
			if n := len(c.Pods(c.Context(), "")); n != want {
				c.Errorf("%d pods are left, want %d", n, want)
			}
		})
	}
	play("by-priority", "old", 3)
	play("by-lost-work", "young", 2)
}
