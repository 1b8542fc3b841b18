package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// remove deletes pods without a grace period.
func (c *cluster) remove(names ...string) {
	c.Helper()
	for _, name := range names {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		if err := c.Kube.CoreV1().Pods("default").Delete(c.Context(), name, now); err != nil {
			c.Fatal(err)
		}
	}
}

// tick waits until the current time, rounded to seconds as in the API, is later than "past".
func (c *cluster) tick(past time.Time) {
	c.Helper()
	c.Eventually("the clock goes on", func(context.Context) string {
		if now := time.Now(); now.Unix() <= past.Unix() {
			return "it is " + now.String()
		}
		return ""
	})
}

// TestClock checks status.startTime, and the protection by a min-runtime, after the scheduler
// restarts and after a gang loses members.
func TestClock(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	three := team{name: "team", queue: "leaf", members: 3, minCount: 2, gpus: 2}
	// settled waits until the status of the PodGroup has the number of running members.
	settled := func(c *cluster, running int32) {
		c.Helper()
		c.Eventually("the group's status is up to date", func(ctx context.Context) string {
			if got := c.group(ctx, "team").Status.Running; got != running {
				return fmt.Sprintf("%d members run, want %d", got, running)
			}
			return ""
		})
	}
	kept := func(c *cluster, began time.Time) {
		c.Helper()
		if got := c.started("team"); !got.Equal(began) {
			c.Errorf("the group has started at %v, want %v as before", got, began)
		}
	}
	renewed := func(c *cluster, began time.Time) {
		c.Helper()
		if got := c.started("team"); !got.After(began) {
			c.Errorf("the group has started at %v, want later than the %v of those that have gone", got, began)
		}
	}
	c.scene("kept over a restart, and over the loss of a member meanwhile", func(c *cluster) {
		c.queue("leaf", "preemptMinRuntime: 1h")
		c.team(three)
		began := c.started("team")
		c.tick(began)
		c.restart()
		c.pod("urgent", 6, "high", map[string]string{v1alpha1.LabelQueue: "leaf"})
		c.WaitsSaying("urgent", "waits until "+began.Add(time.Hour).UTC().Format(time.RFC3339), "(PreemptMinRuntime of queue leaf)")
		kept(c, began)
		c.restart(func() { c.remove("team-0") })
		settled(c, 2)
		kept(c, began)
		c.protected("team", time.Hour)
	})
	// spent waits until the end of the PodGroup's protection is an hour after "began": a restart of
	// members has not renewed the protection.
	spent := func(c *cluster, began time.Time) {
		c.Helper()
		c.Eventually("the protection of the run is not renewed", func(ctx context.Context) string {
			if until := c.group(ctx, "team").Status.ProtectedUntil; until == nil || !until.Equal(ptr.To(metav1.NewTime(began.Add(time.Hour)))) {
				return fmt.Sprintf("until %v, want an hour from %v", until, began)
			}
			return ""
		})
	}
	c.scene("a later start when a gang is whole again, and the protection of before", func(c *cluster) {
		c.queue("leaf", "preemptMinRuntime: 1h")
		c.team(three)
		began := c.started("team")
		c.remove("team-0", "team-1")
		settled(c, 1)
		c.tick(began)
		c.member(three, 0)
		settled(c, 2)
		renewed(c, began)
		spent(c, began)
		c.restart()
		c.pod("urgent", 6, "high", map[string]string{v1alpha1.LabelQueue: "leaf"})
		c.WaitsSaying("urgent", "waits until "+began.Add(time.Hour).UTC().Format(time.RFC3339), "(PreemptMinRuntime of queue leaf)")
		spent(c, began)
	})
	c.scene("anew after all have gone", func(c *cluster) {
		c.queue("leaf", "preemptMinRuntime: 1h")
		c.team(three)
		began := c.started("team")
		c.remove("team-0", "team-1", "team-2")
		c.Eventually("the start is cleared", func(ctx context.Context) string {
			if st := c.group(ctx, "team").Status; st.StartTime != nil || st.ProtectedUntil != nil {
				return fmt.Sprintf("started %v, protected until %v", st.StartTime, st.ProtectedUntil)
			}
			return ""
		})
		c.tick(began)
		for i := range 3 {
			c.member(three, i)
		}
		c.Runs("team", 3)
		renewed(c, began)
		c.protected("team", time.Hour)
	})
	c.scene("anew after all have gone during a restart", func(c *cluster) {
		c.queue("leaf", "preemptMinRuntime: 1h")
		c.team(three)
		began := c.started("team")
		settled(c, 3)
		c.restart(func() {
			c.remove("team-0", "team-1", "team-2")
			c.tick(began)
			c.member(three, 0)
			c.member(three, 1)
		})
		settled(c, 2)
		renewed(c, began)
	})
	c.scene("anew while those before are on their way out", func(c *cluster) {
		c.queue("leaf", "preemptMinRuntime: 1h")
		slow := team{name: "team", queue: "leaf", members: 2, minCount: 2, gpus: 1, change: []func(*corev1.Pod){linger}}
		c.team(slow)
		began := c.started("team")
		for _, name := range []string{"team-0", "team-1"} {
			if err := c.Kube.CoreV1().Pods("default").Delete(c.Context(), name, metav1.DeleteOptions{}); err != nil {
				c.Fatal(err)
			}
		}
		settled(c, 0)
		c.tick(began)
		c.member(slow, 2)
		c.member(slow, 3)
		settled(c, 2)
		renewed(c, began)
	})
}
