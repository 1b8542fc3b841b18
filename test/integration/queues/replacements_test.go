package queues

import (
	"context"
	"fmt"
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// TestReplacementsWait counts searches for many equal pods that cannot preempt, such as
// replacements of victims. Whenever a pod terminates, the scheduler retries these pods. It must
// search once for all of them, instead of once for each.
func TestReplacementsWait(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	const waiting, preemptions = 60, 8
	searches := func(c *cluster) float64 {
		return c.Metrics(c.Run.Component(playground.Scheduler)).Sum("reprieve_preemption_attempts_total", `result="infeasible"`)
	}
	for name, queue := range map[string]string{"in no queue": "", "in a queue": "team"} {
		c.scene(name, func(c *cluster) {
			labels := map[string]string{}
			if queue != "" {
				c.queue(queue)
				c.known(queue)
				labels[v1alpha1.LabelQueue] = queue
			}
			for i := range 8 {
				c.pod(fmt.Sprintf("low-%d", i), 1, "low", labels)
			}
			c.Runs("low-", 8)
			for i := range waiting {
				c.pod(fmt.Sprintf("again-%02d", i), 1, "low", labels)
			}
			c.Eventually("all have been told no", func(ctx context.Context) string {
				for _, pod := range c.Pods(ctx, "again-") {
					if scheduledAt(&pod).IsZero() {
						return pod.Name + " has not"
					}
				}
				return ""
			})
			before := searches(c)
			for i := range preemptions {
				c.pod(fmt.Sprintf("high-%d", i), 1, "high", labels)
				c.Runs(fmt.Sprintf("high-%d", i), 1)
			}
			c.rested("again-")
			// Each preemption causes several events, and the scheduler retries after each of them.
			// A search for each waiting pod would exceed the bound.
			n, most := searches(c)-before, float64(preemptions*waiting/4)
			c.Logf("%v searches in vain beside %d preemptions, of %d pods that wait", n, preemptions, waiting)
			if n > most {
				c.Errorf("%v searches in vain beside %d preemptions, of %d pods that wait; want at most %v", n, preemptions, waiting, most)
			}
		})
	}
}
