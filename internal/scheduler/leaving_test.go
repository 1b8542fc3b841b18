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
		// happens goes on from an eviction that takes it.
		happens func(l *leavingPods, taken takenVictims)
		// wantAfter is whether it counts as gone then, and wantLater a while later.
		wantAfter, wantLater bool
		// wantStays is whether it is said then that it may stay.
		wantStays bool
	}{
		"while it is taken": {func(*leavingPods, takenVictims) {}, true, true, false},
		"spared":            {func(l *leavingPods, taken takenVictims) { l.spare(taken, nil) }, false, false, false},
		"begun":             {func(l *leavingPods, taken takenVictims) { l.over(taken, uids, start) }, true, false, true},
		"begun, and gone": {func(l *leavingPods, taken takenVictims) {
			l.over(taken, uids, start)
			l.gone(v, start)
		}, true, false, false},
		"begun, and placed": {func(l *leavingPods, taken takenVictims) {
			l.over(taken, uids, start)
			l.placed(v.UID)
		}, false, false, false},
		"begun, and taken again": {func(l *leavingPods, taken takenVictims) {
			l.over(taken, uids, start)
			l.take(victims)
		}, true, true, false},
		"begun, and spared by another": {func(l *leavingPods, taken takenVictims) {
			l.over(taken, uids, start)
			l.spare(l.take(victims), nil)
		}, true, false, true},
		"begun while taken by two": {func(l *leavingPods, taken takenVictims) {
			l.take(victims)
			l.over(taken, uids, start)
		}, true, true, false},
		"placed, taken again and spared, and the first one ends meanwhile": {func(l *leavingPods, taken takenVictims) {
			l.placed(v.UID)
			second := l.take(victims)
			l.over(taken, uids, start)
			l.spare(second, nil)
		}, false, false, false},
		"placed and taken again, and the first one ends": {func(l *leavingPods, taken takenVictims) {
			l.placed(v.UID)
			l.take(victims)
			l.over(taken, uids, start)
		}, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l leavingPods
			c.happens(&l, l.take(victims))
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

// TestLivingVictimIsCountedAgain: a pod that an eviction began to take, and that is not told to go after all, is taken into account
// again, and those that wait for it to go look for other room.
func TestLivingVictimIsCountedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.create(on(pod("v", "", "1", 0), "node-0"), pod("p", "", "1", 5))
	r.cycle()
	r.succeed(0)
	r.never("it is tried, and its victim has not gone", 100*time.Millisecond, func() bool { return len(r.active()) > 0 })
	r.hub.leaving.mu.Lock()
	r.hub.leaving.swept = time.Time{}
	for _, v := range r.hub.leaving.victims {
		v.over = v.over.Add(-2 * lag)
	}
	r.hub.leaving.mu.Unlock()
	r.eventually("it takes the victim again", func() bool { r.cycles(); return len(r.evictor.orders) == 2 })
}
