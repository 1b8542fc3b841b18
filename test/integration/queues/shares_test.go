package queues

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// soon is the longest time until work is placed after a change of fair shares, including the
// eviction of its victims. It is generous for busy machines. The scheduler's periodic retry would
// come minutes later, so a placement within this time has another cause.
const soon = 50 * time.Second

// within calls a function, and fails the test if it takes longer than a bound. It returns the
// duration.
func (c *cluster) within(bound time.Duration, what func()) (took time.Duration) {
	c.Helper()
	began := time.Now()
	what()
	took = time.Since(began)
	c.Logf("took %v", took.Round(10*time.Millisecond))
	if took > bound {
		c.Errorf("took %v, want at most %v", took, bound)
	}
	return took
}

// TestShareThatGrows increases the fair share of a queue, and changes no pod that has a node. The
// scheduler must retry the reclaimers in this queue.
func TestShareThatGrows(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before, change func(c *cluster)
	}{
		"another queue wants nothing any more": {
			before: func(c *cluster) {
				c.queue("third")
				c.pods("ask", "third", 1, 8, "")
				c.shows("third", "0", "8", "4")
			},
			change: func(c *cluster) {
				if err := c.Kube.CoreV1().Pods("default").Delete(c.Context(), "ask-0", metav1.DeleteOptions{}); err != nil {
					c.Fatal(err)
				}
			},
		},
		"a quota is raised": {
			before: func(c *cluster) { c.queue("lender", "overQuotaWeight: 0") },
			change: func(c *cluster) { c.queue("lender", "overQuotaWeight: 0", "quota: {nvidia.com/gpu: 4}") },
		},
		"a weight is raised": {
			before: func(c *cluster) { c.queue("borrower", "overQuotaWeight: 3") },
			change: func(c *cluster) { c.queue("borrower", "overQuotaWeight: 1") },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := oneNode(t)
			c.queue("borrower")
			c.queue("lender")
			c.pods("borrowed", "borrower", 8, 1, "")
			c.Runs("borrowed", 8)
			tt.before(c)
			c.known("borrower", "lender")
			c.pods("claim", "lender", 1, 4, "")
			c.WaitsSaying("claim-0", "PreemptorOverFairShare")
			c.rested("claim", "ask")
			tt.change(c)
			c.within(soon, func() { c.Runs("claim", 1) })
			c.Runs("borrowed", 4)
		})
	}
}

// TestQueuesThatComeLate creates work that names queues before any Queue exists. Later it creates
// the Queues.
func TestQueuesThatComeLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.pods("borrowed", "borrower", 4, 2, "")
	c.Runs("borrowed", 4)
	c.pods("claim", "lender", 1, 4, "")
	c.WaitsSaying("claim-0", "0/1 nodes")
	c.rested("claim")
	c.queue("lender")
	c.queue("borrower")
	c.within(soon, func() { c.Runs("claim", 1) })
	c.Runs("borrowed", 2)
}
