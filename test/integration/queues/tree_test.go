package queues

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// goes waits until the named pods are terminating or gone.
func (c *cluster) goes(names ...string) {
	c.Helper()
	for _, name := range names {
		c.Eventually(name+" goes", func(ctx context.Context) string {
			if pod := c.Find(ctx, name); pod != nil && pod.DeletionTimestamp == nil {
				return "it stays"
			}
			return ""
		})
	}
}

// has waits until the status of a Queue has a number of allocated GPUs and a fair share.
func (c *cluster) has(name, allocated, fairShare string) {
	c.Helper()
	c.Eventually("the status of "+name, func(ctx context.Context) string {
		q := c.getQueue(ctx, name)
		if q == nil {
			return "it is not there"
		}
		has, share := q.Status.Allocated[gpu], q.Status.FairShare[gpu]
		if has.String() != allocated || share.String() != fairShare {
			return "it has " + has.String() + " of " + share.String() + ", want " + allocated + " of " + fairShare
		}
		return ""
	})
}

// TestTrees tests trees of queues: several levels, unequal queues, and changes of the tree while
// work runs.
func TestTrees(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	in := func(queue string) map[string]string { return map[string]string{v1alpha1.LabelQueue: queue} }
	c.scene("the sibling of higher priority is served first", func(c *cluster) {
		c.queue("first", "priority: 10")
		c.queue("second", "overQuotaWeight: 5")
		c.known("first", "second")
		c.pods("second", "second", 8, 1, "")
		c.Runs("second-", 8)
		c.pods("first", "first", 6, 1, "")
		c.Runs("first-", 6)
		c.has("first", "6", "6")
		c.has("second", "2", "2")
	})
	c.scene("a quota comes before the priority of a sibling", func(c *cluster) {
		c.queue("first", "priority: 10")
		c.queue("second", "quota: {nvidia.com/gpu: 3}")
		c.known("first", "second")
		c.pods("first", "first", 8, 1, "")
		c.Runs("first-", 8)
		c.pods("second", "second", 8, 1, "")
		c.Runs("second-", 3)
		c.has("first", "5", "5")
		c.has("second", "3", "3")
	})
	c.scene("four levels", func(c *cluster) {
		for _, side := range []string{"l", "r"} {
			c.queue(side)
			c.queue(side+"1", "parent: "+side)
			c.queue(side+"2", "parent: "+side+"1")
			c.queue(side+"3", "parent: "+side+"2")
			c.queue(side+"4", "parent: "+side+"2")
			c.known(side, side+"1", side+"2", side+"3", side+"4")
		}
		c.pods("l3", "l3", 8, 1, "")
		c.Runs("l3-", 8)
		// The queue l4 reclaims half of the GPUs from its sibling l3.
		c.pods("l4", "l4", 8, 1, "")
		c.Runs("l4-", 4)
		c.has("l3", "4", "4")
		// The queue r3 is in another branch. It reclaims half of all GPUs: a quarter from l3 and a
		// quarter from l4.
		c.pods("r3", "r3", 4, 1, "")
		c.Runs("r3-", 4)
		c.has("l", "4", "4")
		c.has("l2", "4", "4")
		c.has("l3", "2", "2")
		c.has("l4", "2", "2")
		c.has("r", "4", "4")
	})
	c.scene("a limit on each of four levels", func(c *cluster) {
		c.queue("x", "limit: {nvidia.com/gpu: 6}")
		c.queue("x1", "parent: x", "limit: {nvidia.com/gpu: 5}")
		c.queue("x2", "parent: x1", "limit: {nvidia.com/gpu: 3}")
		c.queue("x3", "parent: x2", "limit: {nvidia.com/gpu: 2}")
		c.queue("x4", "parent: x2")
		c.queue("beside", "parent: x1")
		c.known("x", "x1", "x2", "x3", "x4", "beside")
		c.pods("x3", "x3", 3, 1, "")
		c.Runs("x3-", 2)
		c.WaitsSaying(c.pending("x3-"), `Queue "x3" has a limit of 2 nvidia.com/gpu`)
		c.pods("x4", "x4", 2, 1, "")
		c.Runs("x4-", 1)
		c.WaitsSaying(c.pending("x4-"), `Queue "x2" has a limit of 3 nvidia.com/gpu`)
		c.pods("beside", "beside", 3, 1, "")
		c.Runs("beside-", 2)
		c.WaitsSaying(c.pending("beside-"), `Queue "x1" has a limit of 5 nvidia.com/gpu`)
	})
	c.scene("a parent that changes under work that runs", func(c *cluster) {
		began := time.Now()
		c.queue("x", "reclaimMinRuntime: 1h")
		c.queue("z")
		c.queue("leaf", "parent: x")
		c.queue("beside", "parent: z")
		c.known("x", "z", "leaf", "beside")
		c.victim("leaf")
		c.has("x", "8", "8")
		c.pod("claim", 4, "", in("beside"))
		c.WaitsSaying("claim", "waits until", "(ReclaimMinRuntime of queue x)")
		c.protected("victim", time.Hour)
		c.nobodyGoes(began)
		// After leaf moves to the parent z, its new sibling may reclaim from it, because no
		// min-runtime of z or leaf applies.
		c.queue("leaf", "parent: z")
		c.has("x", "0", "0")
		c.within(soon, func() { c.goes("victim-0", "victim-1") })
	})
	c.scene("a parent that goes under work that runs", func(c *cluster) {
		began := time.Now()
		c.queue("x")
		c.queue("leaf", "parent: x")
		c.queue("beside")
		c.known("x", "leaf", "beside")
		c.victim("leaf")
		c.deleteQueue("x")
		c.queueCondition("leaf", v1alpha1.ConditionQueueReady, metav1.ConditionFalse, `"x"`)
		// The work of a queue whose parent is missing still counts, so no other queue may use the
		// fair share of that work.
		c.pod("claim", 4, "", in("beside"))
		c.WaitsSaying("claim", "0/1 nodes")
		c.nobodyGoes(began)
		c.queue("x")
		c.queueCondition("leaf", v1alpha1.ConditionQueueReady, metav1.ConditionTrue)
		c.within(soon, func() { c.goes("victim-0", "victim-1") })
	})
	c.scene("quotas that claim more than there is are cut down in proportion", func(c *cluster) {
		c.queue("large", "quota: {nvidia.com/gpu: 12}")
		c.queue("small", "quota: {nvidia.com/gpu: 4}")
		c.known("large", "small")
		c.pods("large", "large", 8, 1, "")
		c.Runs("large-", 8)
		c.pods("small", "small", 8, 1, "")
		c.Runs("small-", 2)
		c.Runs("large-", 6)
		c.has("large", "6", "6")
		c.has("small", "2", "2")
		began := time.Now()
		c.rested("small", "large")
		c.nobodyGoes(began)
	})
	c.scene("a quota that a gang holds", func(c *cluster) {
		began := time.Now()
		c.queue("lender", "quota: {nvidia.com/gpu: 4}")
		c.queue("owner", "quota: {nvidia.com/gpu: 4}")
		c.known("lender", "owner")
		c.victim("lender")
		c.queueCondition("owner", v1alpha1.ConditionQuotaServed, metav1.ConditionTrue)
		c.pods("owner", "owner", 4, 1, "")
		c.queueCondition("owner", v1alpha1.ConditionQuotaServed, metav1.ConditionFalse, "4 nvidia.com/gpu of the quota cannot be given back", `of Queue "lender"`)
		c.nobodyGoes(began)
	})
}
