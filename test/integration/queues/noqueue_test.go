package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestWorkOfNoQueue tests pods without a queue beside pods in a queue. Between pods of the two
// kinds, only the priority decides about preemption. Pods without a queue must not wait for turns
// of admission.
func TestWorkOfNoQueue(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	in := map[string]string{v1alpha1.LabelQueue: "team"}
	c.scene("a pod of no queue takes from a queue, below its quota as well", func(c *cluster) {
		c.queue("team", "quota: {nvidia.com/gpu: 8}")
		c.known("team")
		c.pods("work", "team", 4, 2, "low")
		c.Runs("work", 4)
		c.pod("outside", 2, "high", nil)
		c.Runs("outside", 1)
		c.Runs("work", 3)
	})
	c.scene("a pod of a queue takes from outside, beyond its fair share as well", func(c *cluster) {
		c.queue("team", "overQuotaWeight: 0")
		c.known("team")
		c.pods("outside", "", 4, 2, "low")
		c.Runs("outside", 4)
		c.pod("work", 2, "high", in)
		c.Runs("work", 1)
		c.Runs("outside", 3)
	})
	c.scene("an equal priority takes nothing", func(c *cluster) {
		began := time.Now()
		c.queue("team", "quota: {nvidia.com/gpu: 8}")
		c.known("team")
		c.pods("outside", "", 2, 2, "low")
		c.Runs("outside", 2)
		c.pods("work", "team", 2, 2, "low")
		c.Runs("work", 2)
		c.pod("late-outside", 2, "low", nil)
		c.pod("late-work", 2, "low", in)
		c.WaitsSaying("late-outside", "Insufficient nvidia.com/gpu")
		c.WaitsSaying("late-work", "Insufficient nvidia.com/gpu")
		c.nobodyGoes(began)
		c.Runs("outside", 2)
		c.Runs("work", 2)
	})
	c.scene("no turn is waited for", func(c *cluster) {
		c.queue("team")
		c.known("team")
		c.pod("outside", 7, "", nil)
		c.Runs("outside", 1)
		// After each change, each pod of the crowd gets a turn and finds no room.
		c.pods("crowd", "team", 40, 2, "")
		// Check only the fastest pod. A busy machine may delay some pods, but if pods had to wait
		// for turns, all would be late.
		fastest := soon
		for i := range 5 {
			name := fmt.Sprintf("passer-%d", i)
			c.pod(name, 1, "", nil)
			fastest = min(fastest, c.within(soon, func() { c.Runs(name, 1) }))
			c.delete(name)
		}
		if most := 4 * time.Second; fastest > most {
			c.Errorf("the fastest of them took %v, want at most %v", fastest, most)
		}
		c.Eventually("the crowd has had its turns", func(ctx context.Context) string {
			for _, pod := range c.Pods(ctx, "crowd") {
				if scheduledAt(&pod).IsZero() {
					return pod.Name + " has had none"
				}
			}
			return ""
		})
	})
}
