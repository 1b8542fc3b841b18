package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// atThree is a limit with which the third crash begins the first pause.
var atThree = CrashLimit{Starts: 3, Backing: doubling}

// TestCrashes checks the end of the pause after each step. The workloads are two pods of one
// controller, and a gang of two members.
func TestCrashes(t *testing.T) {
	t.Parallel()
	pod, next, gang := podNamed("pod"), podNamed("next"), workload.Key{Gang: true, Namespace: "ns", Name: "gang"}
	type step struct {
		at   int
		do   func(c *Crashes, now time.Time)
		of   workload.Key
		want int
	}
	preempts := func(key workload.Key) func(*Crashes, time.Time) {
		return func(c *Crashes, now time.Time) { c.Preempts(key, atThree, now) }
	}
	cancels := func(key workload.Key) func(*Crashes, time.Time) {
		return func(c *Crashes, _ time.Time) { c.Cancels(key) }
	}
	starts := func(key workload.Key, uids ...UID) func(*Crashes, time.Time) {
		return func(c *Crashes, _ time.Time) {
			for _, uid := range uids {
				c.Starts(key, uid)
			}
		}
	}
	restarts := func(key workload.Key, uids ...UID) func(*Crashes, time.Time) {
		return func(c *Crashes, now time.Time) {
			for _, uid := range uids {
				c.Restarts(key, uid, Failure{Stage: uid}, "", now)
			}
		}
	}
	fails := func(uids ...UID) func(*Crashes, time.Time) {
		return func(c *Crashes, now time.Time) {
			for _, uid := range uids {
				c.Fails(uid, Failure{Stage: uid}, "", now)
			}
		}
	}
	ready := func(key workload.Key, is bool) func(*Crashes, time.Time) {
		return func(c *Crashes, now time.Time) { c.Observes(key, is, now) }
	}
	replaced := func(c *Crashes, now time.Time) {
		dropPod(c, pod, "rs", now)
		c.Fails(pod.UID, Failure{}, "", now)
		c.Inherits(next, "rs", now)
		c.Starts(next, next.UID)
	}
	const minute = 60
	crashing := []step{
		{0, preempts(pod), pod, 0}, {1, starts(pod, pod.UID), pod, 0}, {2, restarts(pod, pod.UID), pod, 0}, {3, restarts(pod, pod.UID), pod, 0},
		{4, restarts(pod, pod.UID), pod, 4 + minute},
	}
	pair := []step{{0, preempts(gang), gang, 0}, {1, starts(gang, "a", "b"), gang, 0}}
	for name, c := range map[string]struct {
		steps []step
		// wantLen is the number of records after the last step.
		wantLen int
	}{
		"the third crash": {wantLen: 1, steps: crashing},
		"the pause doubles up to the longest": {wantLen: 1, steps: append(crashing[:len(crashing):len(crashing)],
			step{10, restarts(pod, pod.UID), pod, 10 + 2*minute}, step{20, restarts(pod, pod.UID), pod, 20 + 4*minute},
			step{30, restarts(pod, pod.UID), pod, 30 + 8*minute}, step{40, restarts(pod, pod.UID), pod, 40 + 8*minute},
		)},
		"without a preemption": {steps: []step{{1, starts(pod, pod.UID), pod, 0}, {2, restarts(pod, pod.UID), pod, 0}, {3, restarts(pod, pod.UID, pod.UID), pod, 0}}},
		"no victim was evicted": {steps: []step{
			{0, preempts(pod), pod, 0}, {1, cancels(pod), pod, 0}, {2, starts(pod, pod.UID), pod, 0}, {3, restarts(pod, pod.UID, pod.UID, pod.UID), pod, 0},
		}},
		"ready for a moment": {wantLen: 1, steps: append(crashing[:len(crashing)-1:len(crashing)-1],
			step{4, ready(pod, true), pod, 0}, step{13, ready(pod, false), pod, 0}, step{13, restarts(pod, pod.UID), pod, 13 + minute},
		)},
		"ready for long enough": {steps: append(crashing[:len(crashing)-1:len(crashing)-1],
			step{4, ready(pod, true), pod, 0}, step{14, ready(pod, false), pod, 0}, step{15, restarts(pod, pod.UID), pod, 0},
		)},
		"ready for long enough up to the crash": {steps: append(crashing[:len(crashing)-1:len(crashing)-1],
			step{4, ready(pod, true), pod, 0}, step{14, restarts(pod, pod.UID), pod, 0},
		)},
		"ready for long enough within the pause": {wantLen: 1, steps: append(crashing[:len(crashing):len(crashing)],
			step{10, ready(pod, true), pod, 4 + minute}, step{19, func(*Crashes, time.Time) {}, pod, 4 + minute}, step{20, func(*Crashes, time.Time) {}, pod, 0},
		)},
		"ready before the next preemption": {wantLen: 1, steps: []step{
			{0, preempts(gang), gang, 0}, {1, starts(gang, "a", "b"), gang, 0}, {2, restarts(gang, "a"), gang, 0}, {3, ready(gang, true), gang, 0},
			{20, preempts(gang), gang, 0}, {21, starts(gang, "c"), gang, 0},
			{22, fails("c"), gang, 0}, {23, restarts(gang, "a", "a"), gang, 0}, {24, restarts(gang, "a"), gang, 24 + minute},
		}},
		"all members leave before a crash": {steps: append(pair,
			step{2, func(c *Crashes, now time.Time) { dropPod(c, gang, "", now) }, gang, 0}, step{3, starts(gang, "c"), gang, 0}, step{4, fails("c"), gang, 0},
		)},
		"all members leave after a crash": {wantLen: 1, steps: append(pair,
			step{2, fails("a"), gang, 0}, step{3, func(c *Crashes, now time.Time) { dropPod(c, gang, "", now) }, gang, 0},
			step{4, starts(gang, "c"), gang, 0}, step{5, fails("c"), gang, 0},
		)},
		"it succeeds": {steps: append(crashing[:len(crashing):len(crashing)], step{5, func(c *Crashes, _ time.Time) { c.Succeeds(pod.UID) }, pod, 0})},
		"its controller replaces it": {wantLen: 1, steps: append(crashing[:len(crashing)-1:len(crashing)-1],
			step{5, replaced, next, 5 + minute}, step{6, fails(next.UID), next, 6 + 2*minute},
		)},
		"nobody controls it": {steps: append(crashing[:len(crashing):len(crashing)],
			step{5, func(c *Crashes, now time.Time) { dropPod(c, pod, "", now) }, next, 0},
		)},
		"its outcome arrives after the next one has started": {wantLen: 1, steps: append(crashing[:len(crashing)-1:len(crashing)-1],
			step{5, func(c *Crashes, now time.Time) {
				dropPod(c, pod, "rs", now)
				c.Inherits(next, "rs", now)
				c.Starts(next, next.UID)
			}, next, 0},
			step{6, fails(pod.UID), next, 6 + minute}, step{7, fails(next.UID), next, 7 + 2*minute},
		)},
		"it is deleted": {wantLen: 1, steps: append(crashing[:len(crashing)-1:len(crashing)-1],
			step{5, func(c *Crashes, _ time.Time) { c.Stops(pod.UID) }, pod, 0}, step{6, fails(pod.UID), pod, 0},
		)},
		"nobody inherits for long": {steps: append(crashing[:len(crashing):len(crashing)],
			step{5, func(c *Crashes, now time.Time) { dropPod(c, pod, "rs", now) }, next, 0},
			step{5 + 16*minute, func(c *Crashes, now time.Time) { c.Inherits(next, "rs", now) }, next, 0},
		)},
		"both members of a gang crash three times": {wantLen: 1, steps: append(pair,
			step{2, restarts(gang, "a", "b"), gang, 0}, step{3, restarts(gang, "b", "a"), gang, 0}, step{4, restarts(gang, "a", "b"), gang, 4 + minute},
		)},
		"all members of a gang fail and are replaced": {wantLen: 1, steps: append(pair,
			step{2, fails("a", "b"), gang, 0}, step{3, starts(gang, "c", "d"), gang, 0}, step{4, fails("c", "d"), gang, 0},
			step{5, starts(gang, "e", "f"), gang, 0}, step{6, fails("f", "e", "e"), gang, 6 + minute},
		)},
		"a member that ran before": {wantLen: 1, steps: append(pair, step{2, restarts(gang, "old", "a", "a"), gang, 0})},
		"its PodGroup is gone":     {steps: append(pair, step{2, func(c *Crashes, _ time.Time) { c.Ends(gang) }, gang, 0}, step{3, fails("a"), gang, 0})},
		"its owner changes it": {wantLen: 1, steps: append(crashing[:len(crashing):len(crashing)],
			step{5, func(c *Crashes, now time.Time) { c.Changed(pod, "", now) }, pod, 0}, step{6, restarts(pod, pod.UID), pod, 6 + 2*minute},
		)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashes := newWorld().Crashes
			for i, s := range c.steps {
				now := atSecond(s.at)
				s.do(crashes, now)
				end := 0
				if p, paused := crashes.Pause(s.of, now); paused {
					end = int(p.Until.Sub(atSecond(0)).Seconds())
				}
				if end != s.want {
					t.Errorf("After step %d the pause ends at %d s, want %d", i, end, s.want)
				}
			}
			if crashes.Len() != c.wantLen || crashes.IsEmpty() != (c.wantLen == 0) {
				t.Errorf("There are %d records, want %d", crashes.Len(), c.wantLen)
			}
		})
	}
}

// TestLatestPause checks that the pause that ends last applies to a workload that was not bound and
// has crashed.
func TestLatestPause(t *testing.T) {
	t.Parallel()
	e, pod := newWorld(), podNamed("pod")
	e.Crashes.Preempts(pod, CrashLimit{Starts: 1, Backing: doubling}, atSecond(0))
	e.Crashes.Starts(pod, pod.UID)
	e.Crashes.Fails(pod.UID, Failure{Stage: "a crash"}, "", atSecond(5))
	e.Unbound.Preempts(pod)
	e.Unbound.Fails(pod, Failure{Stage: "Bind"}, "", doubling, atSecond(0))
	if p, _ := e.Pause(pod, atSecond(10)); p.Last.Stage != "a crash" || p.Crashes != 1 {
		t.Errorf("The pause is %+v, want the one after the crash", p)
	}
	e.Unbound.Fails(pod, Failure{Stage: "Bind"}, "", doubling, atSecond(20))
	if p, _ := e.Pause(pod, atSecond(30)); p.Last.Stage != "Bind" || p.Crashes != 0 {
		t.Errorf("The pause is %+v, want the one after the failed binding", p)
	}
	if !e.OwnerChanged(pod, "", atSecond(31)) {
		t.Error("A change of the owner ends no pause")
	}
	if p, paused := e.Pause(pod, atSecond(31)); paused {
		t.Errorf("A change of the owner leaves the pause %+v", p)
	}
}

// TestCrashesEndEvictions checks over random events that pauses limit the preemptions for a
// workload whose pods always crash. Only one record may exist at a time.
func TestCrashesEndEvictions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := New(nil)
		c, preemptions := e.Crashes, 0
		const hours = 10
		for now, n := 0, 0; now < hours*3600; n++ {
			key := podNamed(string(rune('a' + n%26)))
			e.Step(atSecond(now), PodArrives{Pod: key.UID, Key: key})
			c.Inherits(key, "rs", atSecond(now))
			if _, paused := c.Pause(key, atSecond(now)); !paused {
				c.Preempts(key, atThree, atSecond(now))
				preemptions++
			}
			c.Starts(key, key.UID)
			e.Step(atSecond(now), PodBinds{Pod: key.UID, Key: key})
			now += rapid.IntRange(1, 60).Draw(t, "run")
			if rapid.Bool().Draw(t, "ready") {
				c.Observes(key, true, atSecond(now))
				now += rapid.IntRange(0, 9).Draw(t, "ready for")
				c.Observes(key, false, atSecond(now))
			}
			outcomeFirst := rapid.Bool().Draw(t, "the outcome first")
			if outcomeFirst {
				c.Fails(key.UID, Failure{}, "", atSecond(now))
			}
			e.Step(atSecond(now), PodLeaves{Pod: key.UID, Key: key, Controller: "rs"})
			if !outcomeFirst {
				c.Fails(key.UID, Failure{}, "", atSecond(now))
			}
			if c.Len() != 1 || len(c.fresh) > 0 {
				t.Fatalf("there are %d records and %d starts of one workload without pods", c.Len(), len(c.fresh))
			}
		}
		// The first three preemptions come without pauses, then three while the pause doubles. Then
		// there is one preemption in eight minutes.
		if most := 6 + hours*60/8; preemptions > most {
			t.Errorf("%d preemptions in %d hours, want %d at most", preemptions, hours, most)
		}
	})
}

// dropPod records that a pod was deleted. The test treats the pod as present afterwards.
func dropPod(c *Crashes, key workload.Key, controller string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaves(key, controller, now)
}
