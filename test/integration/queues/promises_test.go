package queues

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestPromisesEndWithTheirQueue tests a gang that waits for victims. If its queue is deleted, or
// the limit of its queue becomes too low, the scheduler must release the reservation, and other
// pods must get the room. In half of the cases the scheduler is killed before this change, so a new
// scheduler reads the reservation from the API.
func TestPromisesEndWithTheirQueue(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.classes()
	exits := map[string]struct {
		exit   func()
		reason string
	}{
		"it is deleted":        {func() { c.deleteQueue("a") }, v1alpha1.ReasonQueueNotFound},
		"its limit is lowered": {func() { c.queue("a", "limit: {nvidia.com/gpu: 4}") }, v1alpha1.ReasonQueueLimit},
	}
	for name, e := range exits {
		for _, restarts := range []bool{false, true} {
			c.scene(fmt.Sprintf("%s, with a restart: %v", name, restarts), func(c *cluster) {
				c.promised()
				if restarts {
					c.restart(e.exit)
				} else {
					e.exit()
				}
				c.Runs("next", 1)
				c.Eventually("no member is nominated any more", func(ctx context.Context) string { return c.nominated(ctx, "") })
				c.groupSays("urgent", e.reason)
				c.end("stays")
				c.pod("last", 4, "", nil)
				c.Runs("last", 1)
			})
		}
	}
}

// promised creates a gang with two victims. One victim is gone, and the gang waits for the other
// one. It also creates the pod "next", which must not get the reserved room.
func (c *cluster) promised() {
	c.Helper()
	c.queue("a")
	c.queue("b")
	c.known("a", "b")
	for _, name := range []string{"goes", "stays"} {
		c.pod(name, 4, "low", nil, linger)
		c.Runs(name, 1)
	}
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "urgent"}}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 2}}
	pg.Spec.QueueName, pg.Spec.PriorityClassName = ptr.To("a"), ptr.To("high")
	c.Create(pg)
	for i := range 2 {
		c.member(team{name: "urgent", class: "high", gpus: 4}, i)
	}
	c.Eventually("both members are nominated, and the victims leave", func(ctx context.Context) string {
		for _, name := range []string{"goes", "stays"} {
			if c.Pod(name).DeletionTimestamp == nil {
				return name + " stays"
			}
		}
		return c.nominated(ctx, "node-0")
	})
	c.end("goes")
	c.pod("next", 4, "", nil)
	c.Never("the room is kept", func(context.Context) string {
		if pod := c.Pod("next"); pod.Spec.NodeName != "" {
			return "next is on " + pod.Spec.NodeName
		}
		return ""
	})
}

// end removes a terminating pod.
func (c *cluster) end(name string) {
	c.Helper()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := c.Kube.CoreV1().Pods("default").Delete(c.Context(), name, now); err != nil {
		c.Fatal(err)
	}
	c.Gone(name)
}

// nominated returns "" if all members of the gang are nominated to the node want. Otherwise it
// describes the difference. An empty want stands for no nomination.
func (c *cluster) nominated(ctx context.Context, want string) string {
	c.Helper()
	for _, pod := range c.Pods(ctx, "urgent-") {
		if got := pod.Status.NominatedNodeName; got != want {
			return fmt.Sprintf("%s is nominated for %q", pod.Name, got)
		}
	}
	return ""
}
