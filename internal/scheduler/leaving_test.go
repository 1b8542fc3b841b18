package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestVictimThatLivesOn checks how long a victim counts as gone. That ends when it is known to keep
// running, or some time after the end of the last eviction that touched it.
func TestVictimThatLivesOn(t *testing.T) {
	t.Parallel()
	v := pod("v", "", "1", 0)
	victims, uids := map[types.UID]*corev1.Pod{v.UID: v}, sets.New(v.UID)
	start := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		// happens continues the test after an eviction of the pod has begun.
		happens func(l *leavingPods, taken takenVictims)
		// wantAfter is true if the pod counts as gone after happens.
		wantAfter bool
		// wantLater is true if the pod counts as gone after a later sweep.
		wantLater bool
		// wantStays is true if the sweep returns the pod, because it may keep running.
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

// TestLivingVictimIsCountedAgain checks a pod that keeps running although its eviction began. It
// counts as running again, and the preemptors that wait for it look for other room.
func TestLivingVictimIsCountedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "1")...)
	r.create(on(pod("v", "", "1", 0), "node-0"), pod("p", "", "1", 5))
	r.cycle()
	r.succeed(0)
	r.never("it is tried, and its victim has not gone", 100*time.Millisecond, func() bool { return len(r.active()) > 0 })
	r.sched.leaving.mu.Lock()
	r.sched.leaving.swept = time.Time{}
	for _, v := range r.sched.leaving.victims {
		v.over = v.over.Add(-2 * lag)
	}
	r.sched.leaving.mu.Unlock()
	r.eventually("it takes the victim again", func() bool { r.cycles(); return len(r.evictor.orders) == 2 })
}
