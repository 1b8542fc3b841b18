package gang

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDegraded checks since when a gang of three lacks members.
func TestDegraded(t *testing.T) {
	t.Parallel()
	type look struct {
		at       float64
		pods     []*corev1.Pod
		minCount int
		want     float64
	}
	all, waits := ran("r", 3, 10), named("p", 3)
	bound := func(n int) []*corev1.Pod {
		pods := ran("b", n, 10)
		for _, pod := range pods {
			pod.Status.Phase = corev1.PodPending
		}
		return pods
	}
	state := func(pods []*corev1.Pod, phase corev1.PodPhase) []*corev1.Pod {
		out := slices.Clone(pods)
		for i := range out {
			out[i] = out[i].DeepCopy()
			out[i].Status.Phase = phase
		}
		return out
	}
	done, failed := state(all[2:], corev1.PodSucceeded), state(all[2:], corev1.PodFailed)
	cases := map[string]struct {
		scheduled bool
		since     float64
		basic     bool
		looks     []look
	}{
		"placed one after the other": {looks: []look{{at: 20, pods: slices.Concat(bound(1), waits[:2])}, {at: 200, pods: slices.Concat(bound(2), waits[:1])}, {at: 300, pods: bound(3)}}},
		"waits for images":           {looks: []look{{at: 20, pods: bound(3)}, {at: 900, pods: bound(3)}}},
		"lost one":                   {looks: []look{{at: 20, pods: all}, {at: 30, pods: all[:2], want: 30}, {at: 90, pods: slices.Concat(all[:2], waits[:1]), want: 30}}},
		"lost one before it ran":     {looks: []look{{at: 20, pods: bound(3)}, {at: 30, pods: bound(2), want: 30}}},
		"lost one that failed":       {looks: []look{{at: 20, pods: all}, {at: 30, pods: slices.Concat(all[:2], failed), want: 30}}},
		"one replaced, one missing":  {looks: []look{{at: 20, pods: all}, {at: 30, pods: all[:1], want: 30}, {at: 50, pods: slices.Concat(all[:1], bound(1)), want: 30}}},
		"whole again, and lost again": {looks: []look{
			{at: 20, pods: all}, {at: 30, pods: all[:2], want: 30}, {at: 40, pods: slices.Concat(all[:2], bound(1))}, {at: 50, pods: all[:2], want: 50},
		}},
		"one has succeeded":                     {looks: []look{{at: 20, pods: all}, {at: 30, pods: slices.Concat(all[:2], done)}}},
		"one has succeeded, its pod is gone":    {looks: []look{{at: 20, pods: all}, {at: 30, pods: slices.Concat(all[:2], done)}, {at: 40, pods: all[:2]}}},
		"that, fewer are needed, lost one":      {looks: []look{{at: 20, pods: all}, {at: 30, pods: slices.Concat(all[:2], done)}, {at: 40, pods: all[:2], minCount: 2}, {at: 50, pods: all[:1], minCount: 2, want: 50}}},
		"fewer are needed":                      {looks: []look{{at: 20, pods: all}, {at: 30, pods: all[:2], want: 30}, {at: 40, pods: all[:2], minCount: 2}}},
		"more are needed":                       {looks: []look{{at: 20, pods: all}, {at: 30, pods: all, minCount: 4}, {at: 40, pods: slices.Concat(all, bound(1)), minCount: 4}, {at: 50, pods: all, minCount: 4, want: 50}}},
		"lost one, and more are needed":         {looks: []look{{at: 20, pods: all}, {at: 30, pods: all[:2], want: 30}, {at: 40, pods: all[:2], minCount: 4, want: 30}}},
		"all lost":                              {looks: []look{{at: 20, pods: all}, {at: 30, pods: all[:2], want: 30}, {at: 40, pods: waits}, {at: 50, pods: slices.Concat(bound(1), waits[:2])}}},
		"the status says it was whole":          {scheduled: true, looks: []look{{at: 30, pods: all[:2], want: 30}}},
		"the status says since when":            {since: 12, looks: []look{{at: 30, pods: all[:2], want: 12}, {at: 40, pods: slices.Concat(all[:1], bound(1)), want: 12}}},
		"the status is of before":               {since: 12, looks: []look{{at: 30, pods: all}, {at: 40, pods: all[:2], want: 40}}},
		"nothing is known of when it was whole": {looks: []look{{at: 30, pods: all[:2]}}},
		"no gang":                               {basic: true, looks: []look{{at: 20, pods: all}, {at: 30, pods: all[:2]}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			r := NewRuns(func(types.NamespacedName) Members { return MembersOf(pods) }, func() bool { return true }, func(types.NamespacedName) {})
			g := &Group{Key: types.NamespacedName{Name: "g"}, UID: "g", Scheduled: c.scheduled}
			if c.since != 0 {
				g.DegradedSince = at(c.since)
			}
			for i, l := range c.looks {
				if pods, g.MinCount = l.pods, 3; l.minCount > 0 {
					g.MinCount = l.minCount
				}
				if c.basic {
					g.MinCount = 0
				}
				var want time.Time
				if l.want != 0 {
					want = at(l.want)
				}
				r.Touch(g.Key)
				if got := r.Look(g, at(l.at)).DegradedSince; !got.Equal(want) {
					t.Errorf("Look %d: degraded since %v, want %v", i, got, want)
				}
			}
		})
	}
}
