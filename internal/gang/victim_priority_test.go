package gang

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// classValues returns the values of the PriorityClasses in these tests.
func classValues(name string) (int32, bool) {
	value, ok := map[string]int32{"low": 10, "mid": 50, "high": 100, "system-node-critical": 2_000_001_000}[name]
	return value, ok
}

// TestVictimPriority checks the priority of a group as a potential victim, and the reported
// verdict.
func TestVictimPriority(t *testing.T) {
	t.Parallel()
	upTo := func(queue, class string) Maximum {
		m := Maximum{Queue: queue, Class: class}
		if value, ok := classValues(class); ok {
			m.Value = &value
		}
		return m
	}
	for name, c := range map[string]struct {
		class string
		// priority is the group's priority.
		priority *int32
		// scheduling is the group's priority without the class. It is lower than the field priority
		// if a seal has lowered it.
		scheduling int32
		bounded    bool
		maxima     []Maximum
		want       int32
		wantReason string
		wantSaid   string
	}{
		"no class":                          {priority: ptr.To[int32](50), scheduling: 50, want: 50},
		"a higher class":                    {class: "high", priority: ptr.To[int32](50), scheduling: 50, want: 100, wantReason: v1alpha1.ReasonPreemptionPriorityCounts, wantSaid: "counts as priority 100"},
		"the same value":                    {class: "mid", priority: ptr.To[int32](50), scheduling: 50, want: 50, wantReason: v1alpha1.ReasonPreemptionPriorityCounts},
		"a lower class":                     {class: "low", priority: ptr.To[int32](50), scheduling: 50, want: 50, wantReason: v1alpha1.ReasonBelowPriority, wantSaid: "its value 10 is below the scheduling priority of the group, 50"},
		"a lower class, above the seal":     {class: "mid", priority: ptr.To[int32](100), scheduling: 10, want: 10, wantReason: v1alpha1.ReasonBelowPriority},
		"a class that does not exist":       {class: "none", priority: ptr.To[int32](50), scheduling: 50, want: 50, wantReason: v1alpha1.ReasonPriorityClassNotFound},
		"a class of the system":             {class: "system-node-critical", priority: ptr.To[int32](50), scheduling: 50, want: 50, wantReason: v1alpha1.ReasonSystemClass},
		"a priority that is not known yet":  {class: "high", scheduling: 50, want: 100, wantReason: v1alpha1.ReasonPreemptionPriorityCounts},
		"a lower class, priority not known": {class: "low", scheduling: 50, want: 50, wantReason: v1alpha1.ReasonPreemptionPriorityCounts},
		"up to the queue's maximum":         {class: "mid", priority: ptr.To[int32](10), scheduling: 10, maxima: []Maximum{upTo("q", "mid")}, want: 50, wantReason: v1alpha1.ReasonPreemptionPriorityCounts},
		"above the queue's maximum": {
			class: "high", priority: ptr.To[int32](10), scheduling: 10, maxima: []Maximum{upTo("q", "mid")}, want: 50,
			wantReason: v1alpha1.ReasonLimitedByQueue, wantSaid: `the maxPriorityClass "mid" of Queue "q" has 50: the group counts as priority 50`,
		},
		"above the maximum of either queue": {
			class: "high", priority: ptr.To[int32](10), scheduling: 10, maxima: []Maximum{upTo("now", "high"), upTo("sealed", "mid")}, want: 50, wantReason: v1alpha1.ReasonLimitedByQueue,
		},
		"a maximum that fell below the group": {class: "high", priority: ptr.To[int32](50), scheduling: 50, maxima: []Maximum{upTo("q", "low")}, want: 50, wantReason: v1alpha1.ReasonLimitedByQueue},
		"a maximum that does not exist":       {class: "high", priority: ptr.To[int32](10), scheduling: 10, maxima: []Maximum{upTo("q", "none")}, want: 10, wantReason: v1alpha1.ReasonQueueUnusable},
		"a queue without a maximum":           {class: "high", priority: ptr.To[int32](10), scheduling: 10, maxima: []Maximum{{Queue: "q"}}, want: 100, wantReason: v1alpha1.ReasonPreemptionPriorityCounts},
		"from an object, in no queue":         {class: "high", priority: ptr.To[int32](10), scheduling: 10, bounded: true, maxima: []Maximum{{}}, want: 10, wantReason: v1alpha1.ReasonNoMaximum},
		"from an object, with a maximum":      {class: "high", priority: ptr.To[int32](10), scheduling: 10, bounded: true, maxima: []Maximum{upTo("q", "mid")}, want: 50, wantReason: v1alpha1.ReasonLimitedByQueue},
		"from an object, one without maximum": {class: "high", priority: ptr.To[int32](10), scheduling: 10, bounded: true, maxima: []Maximum{upTo("q", "mid"), {}}, want: 10, wantReason: v1alpha1.ReasonNoMaximum},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &Group{PreemptionPriorityClass: c.class, Priority: c.priority, BoundedRaise: c.bounded}
			got, v := g.VictimPriority(c.scheduling, classValues, c.maxima...)
			if got != c.want || v.Reason != c.wantReason || !strings.Contains(v.Message, c.wantSaid) {
				t.Errorf("got %d, %s: %s; want %d, %s: %s", got, v.Reason, v.Message, c.want, c.wantReason, c.wantSaid)
			}
		})
	}
}

// TestVictimPriorityIsBounded checks that no class lowers the priority of a potential victim. No
// class raises it above the value of the class or above the maximum of a queue.
func TestVictimPriorityIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.Int32Range(-100, 100)
		own, sealed, class, highest := values.Draw(t, "own"), values.Draw(t, "sealed"), values.Draw(t, "class"), values.Draw(t, "maximum")
		scheduling := min(own, sealed)
		g := &Group{PreemptionPriorityClass: "c", Priority: &own}
		got, v := g.VictimPriority(scheduling, func(string) (int32, bool) { return class, true }, Maximum{Queue: "q", Class: "m", Value: &highest})
		if got < scheduling || got > scheduling && (got > class || got > highest) || v.Reason == "" {
			t.Fatalf("a group of priority %d counts as %d, of a class of %d and at most %d: %s", scheduling, got, class, highest, v.Message)
		}
	})
}
