package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestElasticGangs tests gangs with surplus members. Surplus members must be evicted before the
// needed members of any gang. During the min-runtime, only surplus members may be evicted.
func TestElasticGangs(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	in := func(queue string) map[string]string { return map[string]string{v1alpha1.LabelQueue: queue} }
	// In the first case, the gang "core" is younger and has a lower priority, but the gang
	// "elastic" has surplus members. These must be the victims.
	c.scene("reclaim", func(c *cluster) {
		c.queue("borrower")
		c.queue("lender")
		c.known("borrower", "lender")
		c.team(team{name: "elastic", queue: "borrower", class: "high", members: 4, minCount: 2, gpus: 1})
		c.team(team{name: "core", queue: "borrower", class: "low", members: 4, minCount: 4, gpus: 1})
		c.pod("claim", 2, "", in("lender"))
		c.Runs("claim", 1)
		c.Runs("core", 4)
		c.Runs("elastic", 2)
	})
	c.scene("preempt", func(c *cluster) {
		c.queue("leaf")
		c.known("leaf")
		c.team(team{name: "elastic", queue: "leaf", class: "low", members: 4, minCount: 2, gpus: 1})
		c.team(team{name: "core", queue: "leaf", class: "low", members: 4, minCount: 4, gpus: 1})
		c.pod("claim", 2, "high", in("leaf"))
		c.Runs("claim", 1)
		c.Runs("core", 4)
		c.Runs("elastic", 2)
	})
	for rule, class := range map[string]string{"ReclaimMinRuntime": "", "PreemptMinRuntime": "high"} {
		c.scene("inside the window of "+rule, func(c *cluster) {
			c.queue("borrower", "reclaimMinRuntime: 1h", "preemptMinRuntime: 1h")
			c.queue("lender")
			c.known("borrower", "lender")
			from := map[string]string{"ReclaimMinRuntime": "lender", "PreemptMinRuntime": "borrower"}[rule]
			c.team(team{name: "elastic", queue: "borrower", members: 8, minCount: 6, gpus: 1})
			began := time.Now()
			c.pods("claim", from, 2, 1, class)
			c.Runs("claim", 2)
			c.Runs("elastic", 6)
			var taken []string
			c.Eventually("events say who was taken", func(ctx context.Context) string {
				if taken = c.evicted(ctx, began); len(taken) < 2 {
					return fmt.Sprintf("%v", taken)
				}
				return ""
			})
			c.pod("late", 1, class, in(from))
			c.WaitsSaying("late", "waits until", fmt.Sprintf("(%s of queue borrower)", rule), "and 5 more units are")
			c.nobodyGoes(began, taken...)
		})
	}
	c.scene("members on their way out do not run", func(c *cluster) {
		began := time.Now()
		c.queue("borrower", "reclaimMinRuntime: 1h")
		c.queue("lender", "overQuotaWeight: 3")
		c.known("borrower", "lender")
		c.team(team{name: "elastic", queue: "borrower", members: 4, minCount: 2, gpus: 2, change: []func(*corev1.Pod){linger}})
		for _, name := range []string{"elastic-0", "elastic-1"} {
			if err := c.Kube.CoreV1().Pods("default").Delete(c.Context(), name, metav1.DeleteOptions{}); err != nil {
				c.Fatal(err)
			}
		}
		c.shows("borrower", "8", "4", "4")
		// The preemptor needs the room of one more member. Its fair share covers its request, so
		// only the min-runtime blocks it.
		c.pod("claim", 6, "", in("lender"))
		c.shows("lender", "0", "6", "6")
		c.WaitsSaying("claim", "waits until", "(ReclaimMinRuntime of queue borrower)", "and 1 more unit are")
		c.nobodyGoes(began)
		c.Runs("elastic", 2)
	})
}
