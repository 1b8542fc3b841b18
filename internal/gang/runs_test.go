package gang

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// at returns the time of these tests after a number of seconds.
func at(seconds float64) time.Time { return time.Unix(0, int64(seconds*float64(time.Second))) }

// ran returns running members that were created and scheduled at a time in seconds.
func ran(prefix string, count int, since int64) []*corev1.Pod {
	return named(prefix, count, func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Status.Phase, pod.CreationTimestamp = "node", corev1.PodRunning, metav1.Unix(since, 0)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(since, 0)}}
	})
}

// TestRuns checks the start of the run of a gang of two.
func TestRuns(t *testing.T) {
	t.Parallel()
	// look is a call of Look with these members, at a time and with a start in the status; 0 for
	// none.
	type look struct {
		at     float64
		status float64
		pods   []*corev1.Pod
		want   float64
	}
	old, anew := ran("r", 2, 20), ran("n", 2, 100)
	replaced := []*corev1.Pod{old[0], anew[0]}
	done := ran("r", 2, 20)[1:]
	done[0].Status.Phase = corev1.PodSucceeded
	bound := ran("n", 1, 100)
	bound[0].Status.Phase = corev1.PodPending
	cases := map[string][]look{
		"whole from the moment that it is seen": {{at: 25, pods: old[:1]}, {at: 30.7, pods: old, want: 30}, {at: 50, pods: old, want: 30}},
		"whole before it is seen":               {{at: 30.7, pods: old, want: 20}, {at: 50, pods: old, want: 20}},
		"whole since its status says":           {{at: 50, status: 20, pods: old, want: 20}, {at: 60, status: 20, pods: old, want: 20}},
		"its status lags":                       {{at: 20, pods: old, want: 20}, {at: 50, status: 5, pods: old, want: 20}},
		"another process has a later start":     {{at: 20, pods: old, want: 20}, {at: 50, status: 21, pods: old, want: 21}},
		"one is bound, and does not run":        {{at: 120, pods: slices.Concat(old[:1], bound), want: 0}, {at: 121, pods: replaced, want: 121}},
		"its status is of a run before":         {{at: 120, status: 50, pods: anew, want: 100}},
		"its status is older than one of them":  {{at: 120, status: 50, pods: replaced, want: 100}},
		"one has succeeded":                     {{at: 20, pods: old, want: 20}, {at: 50, pods: slices.Concat(old[:1], done), want: 20}},
		"one has succeeded, a moment later": {
			{at: 20, pods: old, want: 20}, {at: 50, pods: old[:1], want: 20}, {at: 50.5, pods: slices.Concat(old[:1], done), want: 20},
		},
		"more have come": {{at: 20, pods: old, want: 20}, {at: 120, pods: slices.Concat(old, anew), want: 20}},
		"more have come, and took over": {
			{at: 20, pods: old, want: 20}, {at: 120, pods: slices.Concat(old, anew), want: 20}, {at: 121, pods: anew, want: 121},
		},
		"one of more has gone": {{at: 120, status: 20, pods: slices.Concat(old, anew), want: 20}, {at: 121, pods: replaced, want: 20}},
		"short for a moment":   {{at: 20, pods: old, want: 20}, {at: 50, pods: old[:1], want: 20}, {at: 50.9, pods: old, want: 20}},
		"short for a moment, by others": {
			{at: 20, pods: old, want: 20}, {at: 120, pods: old[:1], want: 20}, {at: 120.9, status: 20, pods: replaced, want: 120}, {at: 150, status: 20, pods: replaced, want: 120},
		},
		"short, and still so":            {{at: 20, pods: old, want: 20}, {at: 50, pods: old[:1], want: 20}, {at: 51, status: 20, pods: old[:1], want: 0}},
		"short, and whole by the same":   {{at: 20, pods: old, want: 20}, {at: 50, pods: old[:1], want: 20}, {at: 51, pods: old[:1]}, {at: 52, status: 20, pods: old, want: 52}},
		"replaced between two looks":     {{at: 20, pods: old, want: 20}, {at: 120, status: 20, pods: replaced, want: 100}, {at: 130, status: 20, pods: replaced, want: 100}},
		"all replaced between two looks": {{at: 20, pods: old, want: 20}, {at: 120, status: 20, pods: anew, want: 100}},
		"nothing left":                   {{at: 20, pods: old, want: 20}, {at: 50, status: 20}, {at: 120, status: 20, pods: anew, want: 100}},
		"created ahead of the clock":     {{at: 20, pods: anew, want: 100}, {at: 21, status: 100, pods: anew, want: 100}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			moves := 0
			r := NewRuns(func(types.NamespacedName) Members { return MembersOf(pods) }, func() bool { return true }, func(types.NamespacedName) { moves++ })
			g := &Group{Key: types.NamespacedName{Name: "g"}, UID: "g", MinCount: 2}
			var before, degraded time.Time
			for i, l := range looks {
				pods = l.pods
				if g.StartTime = (time.Time{}); l.status != 0 {
					g.StartTime = at(l.status)
				}
				if i == 0 {
					before = g.StartTime
				}
				var want time.Time
				if moves = 0; l.want != 0 {
					want = at(l.want)
				}
				var run Run
				for range 2 {
					r.Touch(g.Key)
					if run = r.Look(g, at(l.at)); !run.Start.Equal(want) {
						t.Errorf("Look %d: started at %v, want %v", i, run.Start, want)
					}
				}
				wantMoves, wasDegraded := 0, degraded
				degraded = run.DegradedSince
				if (!want.Equal(before) || !degraded.Equal(wasDegraded)) && len(pods) > 0 {
					wantMoves = 1
				}
				if moves != wantMoves {
					t.Errorf("Look %d: told %d times that the start has moved, want %d", i, moves, wantMoves)
				}
				before = want
			}
		})
	}
}

// TestRunsAreLookedAt checks that touched groups are updated, and deleted groups are dropped.
func TestRunsAreLookedAt(t *testing.T) {
	t.Parallel()
	pods, ready, moves := ran("r", 2, 10), false, 0
	r := NewRuns(func(types.NamespacedName) Members { return MembersOf(pods) }, func() bool { return ready }, func(types.NamespacedName) { moves++ })
	g := &Group{Key: types.NamespacedName{Name: "g"}, UID: "g", MinCount: 2, StartTime: at(5)}
	source := &Store{}
	source.Set(g)
	if got := r.Look(g, at(20)).Start; !got.Equal(at(5)) || r.IsWhole(g.Key) {
		t.Errorf("Started at %v before all members are known, want what the status says, and nothing to be known", got)
	}
	ready = true
	if got := r.Look(g, at(20)).Start; !got.Equal(at(10)) || !r.IsWhole(g.Key) {
		t.Errorf("Started at %v, want when the members were scheduled", got)
	}
	// 1. The gang lacks a member. Settle notices that only after Touch. The end of the run needs no
	// further Touch.
	pods, moves = pods[:1], 0
	r.Settle(source, at(50))
	r.Settle(source, at(55))
	if moves > 0 {
		t.Error("It has moved, and nothing was touched")
	}
	r.Touch(g.Key)
	var mark uint64
	for _, second := range []float64{60, 61} {
		mark = r.Settle(source, at(second))
	}
	if moves != 2 || r.IsWhole(g.Key) {
		t.Errorf("It has moved %d times, want twice: degraded, then whole no more", moves)
	}
	// 2. Whole again.
	if r.HasBegun(g, 0, at(61)) {
		t.Error("It has begun, and lacks a member")
	}
	pods = ran("r", 2, 10)
	r.Touch(g.Key)
	if !r.HasBegun(g, mark, at(62)) {
		t.Error("It has begun anew, and is not known to")
	}
	if r.HasBegun(g, r.Settle(source, at(63)), at(63)) {
		t.Error("It has not begun anew since")
	}
	// 3. Another group with that name.
	another := *g
	another.UID = "another"
	if got := r.Look(&another, at(64)).Start; !got.Equal(at(10)) {
		t.Errorf("Another group of that name started at %v, want what its own status and members say", got)
	}
	r.Touch(g.Key)
	source.Delete(g.Key)
	if r.Settle(source, at(70)); len(r.runs)+r.touched.Len() > 0 {
		t.Error("A group that is gone is known")
	}
}
