package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestVictimThatLivesOn: a victim counts as gone until it is known to stay, and no longer than a while after the last eviction has
// ended that began to take it.
func TestVictimThatLivesOn(t *testing.T) {
	t.Parallel()
	v := pod("v", "", "1", 0)
	victims, uids := map[types.UID]*corev1.Pod{v.UID: v}, sets.New(v.UID)
	start := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		happens func(l *leavingPods)
		// wantAfter is whether it counts as gone then, and wantLater a while later.
		wantAfter, wantLater bool
		// wantStays is whether it is said then that it may stay.
		wantStays bool
	}{
		"while it is taken":        {func(*leavingPods) {}, true, true, false},
		"spared":                   {func(l *leavingPods) { l.spare(v.UID) }, false, false, false},
		"begun":                    {func(l *leavingPods) { l.over(uids, start) }, true, false, true},
		"begun, and gone":          {func(l *leavingPods) { l.over(uids, start); l.gone(v, start) }, true, false, false},
		"begun, and placed":        {func(l *leavingPods) { l.over(uids, start); l.placed(v.UID) }, false, false, false},
		"begun, and taken again":   {func(l *leavingPods) { l.over(uids, start); l.take(victims) }, true, true, false},
		"begun, and spared later":  {func(l *leavingPods) { l.over(uids, start); l.take(victims); l.spare(v.UID) }, true, false, true},
		"begun while taken by two": {func(l *leavingPods) { l.take(victims); l.over(uids, start) }, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l leavingPods
			l.take(victims)
			c.happens(&l)
			if got := l.has(v); got != c.wantAfter {
				t.Errorf("it counts as gone: %t, want %t", got, c.wantAfter)
			}
			stays := l.sweep(start.Add(2 * lag))
			if got := l.has(v); got != c.wantLater || len(stays) > 0 != c.wantStays {
				t.Errorf("a while later it counts as gone: %t, want %t; %d may stay, want that: %t", got, c.wantLater, len(stays), c.wantStays)
			}
		})
	}
}

// TestLivingVictimIsCountedAgain: a pod that an eviction began to take, and that is not told to go after all, is taken into account again.
func TestLivingVictimIsCountedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	v := on(pod("v", "", "1", 0), "node-0")
	r.create(v)
	r.hub.leaving.take(map[types.UID]*corev1.Pod{v.UID: v})
	r.hub.leaving.over(sets.New(v.UID), r.hub.clock.Now().Add(-2*lag))
	r.hub.leaving.mu.Lock()
	r.hub.leaving.swept = time.Time{}
	r.hub.leaving.mu.Unlock()
	r.eventually("it stays", func() bool { return !r.hub.isLeaving(v) })
}
