package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// doubling configures a back-off of 1, 2, 4 and then always 8 minutes.
var doubling = Backing{Initial: time.Minute, Max: 8 * time.Minute}

// TestUnbound checks the end of the pause after each step. The workloads are two pods of one
// controller, and a gang.
func TestUnbound(t *testing.T) {
	t.Parallel()
	pod, next, gang := podNamed("pod"), podNamed("next"), workload.Key{Gang: true, Namespace: "ns", Name: "gang"}
	type step struct {
		at   int
		do   func(u *Unbound, now time.Time)
		of   workload.Key
		want int
	}
	preempts := func(key workload.Key) func(*Unbound, time.Time) {
		return func(u *Unbound, _ time.Time) { u.Preempts(key) }
	}
	cancels := func(key workload.Key) func(*Unbound, time.Time) {
		return func(u *Unbound, _ time.Time) { u.Cancels(key) }
	}
	fails := func(key workload.Key, of string) func(*Unbound, time.Time) {
		return func(u *Unbound, now time.Time) { u.Fails(key, Failure{Stage: "Bind"}, of, doubling, now) }
	}
	preemptsInVain := func(key workload.Key) func(*Unbound, time.Time) {
		return func(u *Unbound, now time.Time) {
			u.Preempts(key)
			u.Fails(key, Failure{Stage: "Bind"}, "", doubling, now)
		}
	}
	changes := func(key workload.Key, of string) func(*Unbound, time.Time) {
		return func(u *Unbound, now time.Time) { u.Changed(key, of, now) }
	}
	leaves := func(key workload.Key, controller string) func(*Unbound, time.Time) {
		return func(u *Unbound, now time.Time) { leave(u, key, controller, now) }
	}
	inherits := func(key workload.Key, controller string) func(*Unbound, time.Time) {
		return func(u *Unbound, now time.Time) { u.Inherits(key, controller, now) }
	}
	ends := func(key workload.Key) func(*Unbound, time.Time) {
		return func(u *Unbound, _ time.Time) { u.Ends(key) }
	}
	const minute = 60
	for name, c := range map[string]struct {
		steps []step
		// wantLen is the number of records after the last step.
		wantLen int
	}{
		"the pause doubles up to the longest": {wantLen: 1, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {100, preemptsInVain(pod), pod, 100 + 2*minute},
			{300, preemptsInVain(pod), pod, 300 + 4*minute}, {700, preemptsInVain(pod), pod, 700 + 8*minute},
			{2000, preemptsInVain(pod), pod, 2000 + 8*minute},
		}},
		"a failure that nobody was preempted for": {steps: []step{{0, fails(pod, ""), pod, 0}}},
		"it fails again without having preempted": {wantLen: 1, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {50, fails(pod, ""), pod, 50 + minute}, {100, fails(pod, ""), pod, 100 + minute},
			{200, preemptsInVain(pod), pod, 200 + 2*minute},
		}},
		"no victim was evicted": {steps: []step{{0, preempts(pod), pod, 0}, {1, cancels(pod), pod, 0}, {2, fails(pod, ""), pod, 0}}},
		"one of two orders evicted victims": {wantLen: 1, steps: []step{
			{0, preempts(pod), pod, 0}, {1, preempts(pod), pod, 0}, {2, cancels(pod), pod, 0}, {3, fails(pod, ""), pod, 3 + minute},
		}},
		"it is bound": {wantLen: 1, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {10, ends(pod), pod, 0}, {20, fails(pod, ""), pod, 0}, {100, preemptsInVain(pod), pod, 100 + minute},
		}},
		"its owner changes it": {wantLen: 1, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {10, changes(pod, ""), pod, 0}, {11, preemptsInVain(pod), pod, 11 + 2*minute},
		}},
		"something changes it all the time": {wantLen: 1, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {1, changes(pod, ""), pod, 0},
			{2, preemptsInVain(pod), pod, 2 + 2*minute}, {3, changes(pod, ""), pod, 2 + minute}, {4, changes(pod, ""), pod, 2 + minute},
			{100, preemptsInVain(pod), pod, 100 + 4*minute}, {101, changes(pod, ""), pod, 100 + 4*minute},
		}},
		"a change without a failure": {steps: []step{{0, changes(pod, ""), pod, 0}}},
		"the PodGroup as it was is no change": {wantLen: 1, steps: []step{
			{0, preempts(gang), gang, 0}, {1, fails(gang, "a"), gang, 1 + minute}, {2, changes(gang, "a"), gang, 1 + minute},
			{3, changes(gang, "b"), gang, 0},
		}},
		"all members are gone, and others come": {wantLen: 1, steps: []step{
			{0, preemptsInVain(gang), gang, minute}, {10, leaves(gang, ""), gang, minute}, {100, preemptsInVain(gang), gang, 100 + 2*minute},
		}},
		"all members are gone before any failed": {steps: []step{{0, preempts(gang), gang, 0}, {10, leaves(gang, ""), gang, 0}}},
		"the PodGroup is gone":                   {steps: []step{{0, preemptsInVain(gang), gang, minute}, {10, ends(gang), gang, 0}}},
		"a pod of no controller is gone":         {steps: []step{{0, preemptsInVain(pod), pod, minute}, {10, leaves(pod, ""), pod, 0}}},
		"its controller creates another": {wantLen: 1, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {10, leaves(pod, "rs"), pod, 0}, {11, inherits(next, "rs"), next, minute},
			{100, preemptsInVain(next), next, 100 + 2*minute},
		}},
		"another controller creates one": {wantLen: 1, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {10, leaves(pod, "rs"), pod, 0}, {11, inherits(next, "other"), next, 0},
		}},
		"one that has failed itself inherits nothing": {wantLen: 2, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {10, preemptsInVain(next), next, 10 + minute}, {11, leaves(pod, "rs"), pod, 0},
			{12, inherits(next, "rs"), next, 10 + minute},
		}},
		"one that has preempted inherits, and it counts": {wantLen: 1, steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {10, leaves(pod, "rs"), pod, 0}, {11, preempts(next), next, 0}, {12, inherits(next, "rs"), next, minute},
			{100, fails(next, ""), next, 100 + 2*minute},
		}},
		"nobody inherits for long": {steps: []step{
			{0, preemptsInVain(pod), pod, minute}, {10, leaves(pod, "rs"), pod, 0}, {16 * minute, inherits(next, "rs"), next, 0},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newWorld().Unbound
			for i, s := range c.steps {
				now := atSecond(s.at)
				s.do(u, now)
				end := 0
				if p, paused := u.Pause(s.of, now); paused {
					end = int(p.Until.Sub(atSecond(0)).Seconds())
				}
				if end != s.want {
					t.Errorf("After step %d the pause ends at %d s, want %d", i, end, s.want)
				}
			}
			if u.Len() != c.wantLen {
				t.Errorf("There are %d records, want %d", u.Len(), c.wantLen)
			}
		})
	}
}

// TestUnboundCounts checks that each preemption without a binding is counted once, and that the
// pause names the last failure.
func TestUnboundCounts(t *testing.T) {
	t.Parallel()
	u := newWorld().Unbound
	gang := workload.Key{Gang: true, Namespace: "ns", Name: "gang"}
	u.Preempts(gang)
	u.Preempts(gang)
	var got []int
	for i := range 3 {
		got = append(got, u.Fails(gang, Failure{Stage: "Bind", Message: fmt.Sprint(i)}, "", doubling, atSecond(i)))
	}
	p, _ := u.Pause(gang, atSecond(3))
	if want := (Failure{"Bind", "2"}); !slices.Equal(got, []int{2, 0, 0}) || p.Preemptions != 2 || p.Last != want {
		t.Errorf("Without a binding are %v, and the pause is %+v", got, p)
	}
}

// TestUnboundEndsEvictions checks over random events that pauses limit the preemptions for a
// workload that is never bound.
func TestUnboundEndsEvictions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := New(nil)
		u, key, uid, preemptions := e.Unbound, podNamed("pod-0"), 0, 0
		e.Step(at(0), PodArrives{Pod: "pod-0", Key: key, Group: workload.Key{}})
		const hours = 10
		for now := 0; now < hours*3600; now += rapid.IntRange(1, 60).Draw(t, "wait") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				u.Changed(key, "", atSecond(now))
			case 1:
				u.Fails(key, Failure{}, "", doubling, atSecond(now))
			case 2:
				e.Step(atSecond(now), PodLeaves{Pod: key.Name, Key: key, Controller: "rs"})
				uid++
				key = podNamed(fmt.Sprintf("pod-%d", uid))
				e.Step(at(0), PodArrives{Pod: key.Name, Key: key, Group: workload.Key{}})
			default:
				u.Inherits(key, "rs", atSecond(now))
				if _, paused := u.Pause(key, atSecond(now)); !paused {
					u.Preempts(key)
					u.Fails(key, Failure{}, "", doubling, atSecond(now))
					preemptions++
				}
			}
			if u.Len() > 1 {
				t.Fatalf("there are %d records of one workload", u.Len())
			}
		}
		// A few preemptions come while the pause doubles, and a few after changes of the workload.
		// Then there is one preemption in eight minutes. If no pod inherits a record in time, the
		// pauses start from the beginning.
		if most := 10 + hours*60/8; preemptions > most {
			t.Errorf("%d preemptions in %d hours, want %d at most", preemptions, hours, most)
		}
	})
}

// leave records that the pods of a workload are gone. The test treats the workload as present
// afterwards.
func leave(u *Unbound, key workload.Key, controller string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.leaves(key, controller, now)
}
