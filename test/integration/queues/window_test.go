package queues

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// windowEnd is a preemptor that only a min-runtime blocks.
type windowEnd struct {
	// queue and class are the preemptor's queue and PriorityClass.
	queue, class string
	// rule and by name the protection of the victim: the rule, and the queue with the setting.
	rule, by string
	// single is true if the victim is a pod without a group.
	single bool
}

// TestWindowThatEnds checks that victims are evicted within 2 seconds after the end of their
// min-runtime, and not before. Until then, the statuses of both sides show the end and the queue
// with the setting. A busy machine may delay some of the cases.
func TestWindowThatEnds(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	cases := map[string]windowEnd{
		"reclaim":                  {queue: "lender", rule: "ReclaimMinRuntime", by: "top"},
		"reclaim from a pod":       {queue: "lender", rule: "ReclaimMinRuntime", by: "top", single: true},
		"preempt":                  {queue: "borrower", class: "high", rule: "PreemptMinRuntime", by: "borrower"},
		"preempt from no queue":    {class: "high", rule: "PreemptMinRuntime", by: "borrower"},
		"a system-critical one":    {queue: "lender", class: "system-cluster-critical", rule: "PreemptMinRuntime", by: "borrower"},
		"preempt a pod in a queue": {queue: "borrower", class: "high", rule: "PreemptMinRuntime", by: "borrower", single: true},
	}
	fastest := soon
	for name, tt := range cases {
		c.scene(name, func(c *cluster) { fastest = min(fastest, c.windowEnds(tt)) })
	}
	// The value is rounded down to whole seconds, so 3 seconds stand for less than 4.
	if fastest > 3*time.Second {
		t.Errorf("the fastest of them took at least %v, want less than 4 seconds", fastest)
	}
}

// soonOver returns a min-runtime of which 15 seconds remain for work that began at the given time.
// That is longer than any back-off, so the preemptor is retried after the change of the setting and
// before the end.
func soonOver(began time.Time) time.Duration {
	return time.Since(began).Round(time.Second) + 15*time.Second
}

// windowEnds returns the whole seconds from the end of the min-runtime to the eviction. The
// min-runtime is an hour until the statuses of both sides show it, because a busy machine may need
// long for that.
func (c *cluster) windowEnds(tt windowEnd) (late time.Duration) {
	guarantee := func(window time.Duration) {
		c.queue("top", fmt.Sprintf("reclaimMinRuntime: %.0fs", window.Seconds()))
		c.queue("borrower", "parent: top", fmt.Sprintf("preemptMinRuntime: %.0fs", window.Seconds()))
	}
	guarantee(time.Hour)
	c.queue("lender")
	c.known("top", "borrower", "lender")
	var began time.Time
	if tt.single {
		c.pod("victim", 8, "", map[string]string{v1alpha1.LabelQueue: "borrower"}, linger)
		c.Runs("victim", 1)
		began = scheduledAt(c.Pod("victim"))
	} else {
		c.team(team{name: "victim", queue: "borrower", members: 2, minCount: 2, gpus: 4, whole: true, change: []func(*corev1.Pod){linger}})
		began = c.started("victim")
		c.protected("victim", time.Hour)
	}
	// Other work waits too, and gets its turns in between.
	c.pods("other", "lender", 20, 8, "")
	c.pod("claim", 4, tt.class, map[string]string{v1alpha1.LabelQueue: tt.queue})
	words := []string{
		"waits until " + began.Add(time.Hour).UTC().Format(time.RFC3339), "default/victim (" + tt.rule + " of queue " + tt.by + ") is protected no longer",
	}
	c.WaitsSaying("claim", words...)
	c.WaitEvent("claim", "FailedScheduling", words...)
	window := soonOver(began)
	end := began.Add(window)
	guarantee(window)
	var victims []corev1.Pod
	c.Eventually("the victim goes", func(ctx context.Context) string {
		victims = c.AllPods(ctx)
		victims = slices.DeleteFunc(victims, func(pod corev1.Pod) bool { return !strings.HasPrefix(pod.Name, "victim") })
		for _, pod := range victims {
			if pod.DeletionTimestamp == nil {
				return pod.Name + " stays"
			}
		}
		return ""
	})
	for _, pod := range victims {
		at := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		if at.Before(end) || at.After(end.Add(soon)) {
			c.Errorf("%s was evicted %v after the end of its window, want less than %v", pod.Name, at.Sub(end), soon)
		}
		late = max(late, at.Sub(end))
	}
	return late
}
