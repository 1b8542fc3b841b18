package queues

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// by returns a function that sets the scheduler name of a pod to a profile.
func by(profile string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SchedulerName = profile }
}

// withArguments returns a cluster whose scheduler has four profiles. They have different
// min-runtimes.
func withArguments(t *testing.T) *cluster {
	t.Helper()
	profile := func(name, args string) string {
		return stage.ProfileConfig(name, "{name: Reprieve, args: "+args+"}")
	}
	return newCluster(t, 1,
		profile("hasty", "{}"), profile("brief", "{preemptMinRuntime: 30s}"),
		profile("patient", "{preemptMinRuntime: 1h, reclaimMinRuntime: 1h}"), profile("leafwise", "{reclaimResolveMethod: Queue}"))
}

// TestPreemptMinRuntimeOfProfile tests work without a queue. Its min-runtime must be the setting of
// the victim's profile, regardless of the preemptor's profile.
func TestPreemptMinRuntimeOfProfile(t *testing.T) {
	t.Parallel()
	c := withArguments(t)
	c.classes()
	c.scene("after as long as they say", func(c *cluster) {
		c.ApplyText(`apiVersion: reprieve.dev/v1alpha1
kind: PodGroup
metadata: {name: whole, namespace: default}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  disruptionMode: PodGroup
`)
		for _, name := range []string{"whole-0", "whole-1"} {
			c.pod(name, 4, "", map[string]string{v1alpha1.LabelPodGroup: "whole"}, by("brief"))
		}
		c.Runs("whole", 2)
		// This min-runtime is part of the running scheduler's configuration, so the test cannot
		// choose it now. It must be longer than the earlier steps of the test.
		const guaranteed = 30 * time.Second
		c.protected("whole", guaranteed)
		began := c.group(c.Context(), "whole").Status.StartTime.Time
		c.pod("second", 8, "low", nil, by("hasty"))
		c.WaitsSaying("second", "waits until", "default/whole (PreemptMinRuntime)")
		c.Runs("second", 1)
		if ran := scheduledAt(c.Pod("second")).Sub(began); ran < guaranteed-time.Second || ran > guaranteed+soon {
			c.Errorf("the first had %v, want %v", ran, guaranteed)
		}
		c.Runs("whole", 0)
	})
	c.scene("not those of the preemptor's", func(c *cluster) {
		c.pod("first", 8, "low", nil, by("hasty"))
		c.Runs("first", 1)
		c.pod("second", 8, "high", nil, by("patient"))
		c.Runs("second", 1)
		c.Gone("first")
	})
	c.scene("against every profile", func(c *cluster) {
		c.pod("first", 8, "low", nil, by("patient"))
		c.Runs("first", 1)
		for _, profile := range []string{"hasty", "brief", "patient"} {
			c.pod("of-"+profile, 8, "high", nil, by(profile))
			c.WaitsSaying("of-"+profile, "waits until", "default/first (PreemptMinRuntime)")
		}
		c.Runs("first", 1)
	})
}

// TestReclaimMinRuntimeOfProfile tests reclaim from a queue. The default for the min-runtime must
// come from the victim's profile, regardless of the reclaimer's profile.
func TestReclaimMinRuntimeOfProfile(t *testing.T) {
	t.Parallel()
	c := withArguments(t)
	cases := map[string]struct {
		profile string
		// waits is part of the reclaimer's message. It is "" if the reclaimer must not wait.
		waits string
	}{
		// With the method LCA, a queue's own min-runtime protects only from its sibling queues. The
		// reclaimer's queue is not a sibling, so the default of the victim's profile applies.
		"the profile's own":                {"patient", "default/borrowed (ReclaimMinRuntime) is"},
		"the victim's queue's, by profile": {"leafwise", "default/borrowed (ReclaimMinRuntime of queue guarded)"},
		"none":                             {"hasty", ""},
	}
	for name, tt := range cases {
		c.scene(name, func(c *cluster) {
			c.queue("top")
			c.queue("guarded", "parent: top", "reclaimMinRuntime: 2h")
			c.queue("lender")
			c.known("top", "guarded", "lender")
			c.pod("borrowed", 8, "", map[string]string{v1alpha1.LabelQueue: "guarded"}, by(tt.profile))
			c.Runs("borrowed", 1)
			c.pod("claim", 4, "", map[string]string{v1alpha1.LabelQueue: "lender"}, by("hasty"))
			if tt.waits != "" {
				c.WaitsSaying("claim", "waits until", tt.waits)
				return
			}
			c.Runs("claim", 1)
			c.Gone("borrowed")
		})
	}
}
