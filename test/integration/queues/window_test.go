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

// windowEnd describes a preemptor that waits only for the end of a min-runtime.
type windowEnd struct {
	// queue and class are the queue and the PriorityClass of the preemptor.
	queue, class string
	// rule is the rule that protects the victim. The field by is the queue with the min-runtime.
	rule, by string
	// single is true if the victim is a single pod; otherwise it is a gang.
	single bool
}

// TestWindowThatEnds tests preemptors that wait for the end of a min-runtime. Their victims must be
// evicted soon after the end and not before. Until then, the messages of the preemptor and the
// status of the victim must show the end. The bound of a few seconds applies only to the fastest
// case, because a busy machine may delay some cases.
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
	// The measured time is rounded down to seconds. So 3 seconds may be almost 4 seconds.
	if fastest > 3*time.Second {
		t.Errorf("the fastest of them took at least %v, want less than 4 seconds", fastest)
	}
}

// soonOver returns a min-runtime that ends in 15 seconds, for work that started at the time began.
// 15 seconds are longer than a back-off, so the scheduler retries the preemptor before the end.
func soonOver(began time.Time) time.Duration {
	return time.Since(began).Round(time.Second) + 15*time.Second
}

// windowEnds returns the time from the end of the min-runtime until the eviction. At first, the
// min-runtime is an hour, so that a slow machine has time to show it in all messages. Then
// windowEnds reduces it.
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
	// Other work of the lender also waits for the room, so the preemptor is not the only work that
	// gets turns.
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
