package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestRepeatedVictims preempts the gang that started later, and starts this gang again. By default,
// the next preemptor must evict the same gang again, because it still started later. With the
// criterion Repeated, it must evict the other gang.
func TestRepeatedVictims(t *testing.T) {
	t.Parallel()
	const order = "victimOrder: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, Repeated, StartTime]"
	c := newCluster(t, 1,
		stage.ProfileConfig("by-start", "{name: Reprieve, args: {}}"), stage.ProfileConfig("by-stops", "{name: Reprieve, args: {"+order+"}}"))
	c.classes()
	for profile, want := range map[string]string{"by-start": "later", "by-stops": "first"} {
		for _, whole := range []bool{true, false} {
			c.scene(fmt.Sprintf("%s, whole %t", profile, whole), func(c *cluster) {
				first := team{name: "first", class: "low", members: 1, minCount: 1, gpus: 4, whole: whole, change: []func(*corev1.Pod){by(profile)}}
				later := first
				later.name = "later"
				c.team(first)
				c.ranFor("first-0", 3*time.Second)
				c.team(later)
				c.pod("urgent-0", 4, "high", nil, by(profile))
				c.Runs("urgent", 1)
				c.Runs("later", 0)
				c.stops("later", 1)
				c.delete("urgent-0")
				c.member(later, 1)
				c.Runs("later", 1)
				c.started("later")
				c.pod("urgent-1", 4, "high", nil, by(profile))
				c.Runs("urgent", 1)
				c.Runs(want, 0)
				if want == "later" {
					c.stops("later", 2)
					return
				}
				c.stops("first", 1)
				c.stops("later", 1)
			})
		}
	}
}

// stops waits until the status of a PodGroup has a number of stops.
func (c *cluster) stops(name string, want int32) {
	c.Helper()
	c.Eventually(fmt.Sprintf("PodGroup %s has %d stops", name, want), func(ctx context.Context) string {
		if last := c.group(ctx, name).Status.LastDisruption; last == nil || last.Stops != want {
			return fmt.Sprintf("the last disruption is %+v", last)
		}
		return ""
	})
}
