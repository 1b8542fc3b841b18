package engine

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

func podNamed(name string) workload.Key {
	return workload.Key{Namespace: "ns", Name: name, UID: "uid-" + name}
}

func gangNamed(name string) workload.Key {
	return workload.Key{Gang: true, Namespace: "ns", Name: name}
}

// atSecond returns the time of these tests after n seconds.
func atSecond(n int) time.Time { return at(float64(n)) }

// TestWait checks that the end of a cause retries each workload that waits for it once, and no
// other workload.
func TestWait(t *testing.T) {
	t.Parallel()
	x, y, z := podNamed("x"), gangNamed("x"), podNamed("z")
	e := newWorld()
	l := e.Waits
	mark := l.Mark()
	l.Wait(x, Reserved, mark)
	l.Wait(y, Reserved, mark)
	l.Wait(y, Queue, mark)
	l.Wait(z, Queue, mark)
	l.Resolve(z, Queue)
	if got := endOf(l, Reserved); !slices.Equal(got, []workload.Key{y, x}) {
		t.Errorf("the end of reservations wakes %v, want both of the name x", got)
	}
	if got := endOf(l, Reserved); len(got) != 0 {
		t.Errorf("%v are woken twice", got)
	}
	if got := endOf(l, Queue); !slices.Equal(got, []workload.Key{y}) {
		t.Errorf("the queues wake %v, want the gang, which waited for both", got)
	}
	if n := l.Len(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestEndedSinceTheMark checks that no workload waits for a cause that ended during the decision.
func TestEndedSinceTheMark(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		ends []Cause
		want bool
	}{
		"nothing has ended":    {want: true},
		"another cause has":    {ends: []Cause{Queue}, want: true},
		"the cause has":        {ends: []Cause{Reserved}},
		"it has, and others":   {ends: []Cause{Reserved, Queue, Protection}},
		"others have since it": {ends: []Cause{Queue, Reserved, Queue}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newWorld()
			l := e.Waits
			endOf(l, Reserved)
			mark := l.Mark()
			for _, ended := range c.ends {
				endOf(l, ended)
			}
			if got := l.Wait(podNamed("x"), Reserved, mark); got != c.want || l.WaitsFor(podNamed("x"), Reserved) != c.want {
				t.Errorf("it waits: %v, want %v", got, c.want)
			}
		})
	}
}

// TestDue checks that workloads are retried at their times, regardless of the order of the calls.
func TestDue(t *testing.T) {
	t.Parallel()
	x, y := podNamed("x"), podNamed("y")
	e := newWorld()
	l := e.Waits
	l.WaitUntil(x, ProtectionEnds, atSecond(50))
	l.WaitUntil(y, ProtectionEnds, atSecond(20))
	l.WaitUntil(x, ProtectionEnds, atSecond(10))
	l.WaitUntil(x, Backoff, atSecond(30))
	l.Gather(y, atSecond(40))
	l.Gather(y, atSecond(60))
	l.Gather(y, atSecond(35))
	steps := []struct {
		now      int
		want     []expired
		wantNext int
	}{
		{now: 9, wantNext: 10},
		{now: 10, want: []expired{{x, ProtectionEnds}}, wantNext: 20},
		{now: 40, want: []expired{{y, ProtectionEnds}, {x, Backoff}, {y, Pause}}},
		{now: 100},
	}
	for _, s := range steps {
		if got := dueOf(l, atSecond(s.now)); !slices.Equal(got, s.want) {
			t.Errorf("at %d: %v are due, want %v", s.now, got, s.want)
		}
		next, ok := e.NextLook(atSecond(s.now))
		if ok != (s.wantNext > 0) || ok && !next.Equal(atSecond(s.wantNext)) {
			t.Errorf("at %d: the next look is at %v (%v), want %d", s.now, next, ok, s.wantNext)
		}
	}
	if n := l.Len(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestForgetEndsEverything checks that no state of a workload is left after it has ended, and that
// nothing retries the workload.
func TestForgetEndsEverything(t *testing.T) {
	t.Parallel()
	x := podNamed("x")
	e := newWorld()
	l := e.Waits
	for c := range causes {
		l.WaitUntil(x, c, atSecond(int(c)))
	}
	l.WaitForVictims(x, []string{"a", "b"}, workload.Requires("a"))
	l.StartEviction(x)
	l.Failed(x, Backing{})
	e.Turns.Enter(admission.Waiter{Key: x, Queue: "q"}, atSecond(0))
	e.leaves(x)
	if n := l.Len(); n != 0 || len(l.byVictim) != 0 || len(l.deadlines.Items) != 0 {
		t.Errorf("%d entries, %v and %d moments are left", n, l.byVictim, len(l.deadlines.Items))
	}
	woken := goneOf(l, "a")
	for _, due := range dueOf(l, atSecond(100)) {
		woken = append(woken, due.key)
	}
	for c := range causes {
		woken = append(woken, endOf(l, c)...)
	}
	if len(woken) != 0 {
		t.Errorf("%v are woken", woken)
	}
}

// TestEvictions checks that a workload is blocked during the API calls of its eviction, and that
// the delay grows with each failure.
func TestEvictions(t *testing.T) {
	t.Parallel()
	e, x := newWorld(), gangNamed("x")
	l := e.Waits
	first := l.StartEviction(x)
	if !l.Evicting(x) || l.Evicting(podNamed("x")) {
		t.Error("the gang, and not the pod of its name, is held back")
	}
	e.leaves(x)
	e.Step(at(0), GroupArrives{x})
	second := l.StartEviction(x)
	if stopped := l.EndEviction(first); stopped || !l.Evicting(x) {
		t.Error("the end of an eviction for members that have gone ends that of others")
	}
	if stopped := l.EndEviction(second); stopped || l.Evicting(x) || l.StopForEviction(x) {
		t.Error("it is held back although the calls are over, or is said to have been when it was not to be tried")
	}
	third := l.StartEviction(x)
	if !l.StopForEviction(x) || !l.EndEviction(third) {
		t.Error("it has not been stopped, or is not said to have been")
	}
	if l.EndEviction(l.StartEviction(x)) {
		t.Error("one that was stopped before is said to have been stopped again")
	}
	b := Backing{Initial: time.Second, Max: 3 * time.Second}
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		if got := l.Failed(x, b); got != want {
			t.Errorf("failure %d: back off for %v, want %v", i+1, got, want)
		}
	}
	l.Succeeded(x)
	if got := l.Failed(x, b); got != 0 {
		t.Errorf("the first failure after a success: back off for %v", got)
	}
	l.WaitUntil(x, Backoff, atSecond(5))
	if !l.Evicting(x) {
		t.Error("it is not held back while it backs off")
	}
	if got := dueOf(l, atSecond(5)); !slices.Equal(got, []expired{{x, Backoff}}) || l.Evicting(x) {
		t.Errorf("%v are due, held back %v", got, l.Evicting(x))
	}
}

// TestVictims checks when the end of a victim retries the workload: after the last needed victim,
// and after the last victim.
func TestVictims(t *testing.T) {
	t.Parallel()
	x, y := podNamed("x"), gangNamed("x")
	type step struct {
		gone        string
		want        []workload.Key
		wantWorthIt bool
	}
	cases := map[string]struct {
		wait func(l *Waits)
		then []step
	}{
		"each has its own": {
			func(l *Waits) {
				l.WaitForVictims(x, []string{"a", "b"}, nil)
				l.WaitForVictims(y, []string{"b"}, nil)
			},
			[]step{{"b", []workload.Key{y}, true}, {"b", nil, true}, {"a", []workload.Key{x}, false}},
		},
		"another set in place of the first": {
			func(l *Waits) {
				l.WaitForVictims(x, []string{"a", "b"}, nil)
				l.WaitForVictims(x, []string{"c"}, nil)
			},
			[]step{{"a", nil, false}, {"c", []workload.Key{x}, false}},
		},
		"none any more": {
			func(l *Waits) {
				l.WaitForVictims(x, []string{"a"}, nil)
				l.WaitForVictims(x, nil, nil)
			},
			[]step{{"a", nil, false}},
		},
		"pods that are needed": {
			func(l *Waits) {
				l.WaitForVictims(x, []string{"a", "b", "c", "d"}, workload.Requires("a", "b", "elsewhere"))
			},
			[]step{{"a", nil, false}, {"c", nil, false}, {"b", []workload.Key{x}, true}, {"d", []workload.Key{x}, false}},
		},
		"more places than the workload can spare": {
			func(l *Waits) {
				l.WaitForVictims(x, []string{"a", "b", "c", "d"}, []workload.Shortage{{Spare: 1, Pods: map[string]workload.Occupied{
					"a": {Node: "n", Places: 1}, "b": {Node: "m", Places: 1}, "c": {Node: "m", Places: 1}, "d": {Node: "o", Places: 2},
				}}})
			},
			[]step{{"d", nil, false}, {"b", nil, false}, {"c", []workload.Key{x}, true}, {"a", []workload.Key{x}, false}},
		},
		"two shortages": {
			func(l *Waits) {
				l.WaitForVictims(x, []string{"a", "b", "c"}, slices.Concat(workload.Requires("a"), workload.Requires("b")))
			},
			[]step{{"a", nil, false}, {"b", []workload.Key{x}, true}, {"c", []workload.Key{x}, false}},
		},
		"pods that are needed no longer": {
			func(l *Waits) {
				l.WaitForVictims(x, []string{"a", "b"}, workload.Requires("a", "b"))
				// The node has grown since.
				l.WaitForVictims(x, []string{"a", "b"}, nil)
			},
			[]step{{"b", nil, true}, {"a", []workload.Key{x}, false}},
		},
		"those in the way, until others go": {
			func(l *Waits) {
				l.WaitForVictims(x, []string{"a"}, workload.Requires("a"))
				// The set has a new pod. The room of that pod may be enough, so no pod is needed
				// any more.
				l.WaitForVictims(x, []string{"a", "b"}, nil)
			},
			[]step{{"b", nil, true}, {"a", []workload.Key{x}, false}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newWorld()
			l := e.Waits
			c.wait(l)
			for _, s := range c.then {
				if got := goneOf(l, s.gone); !slices.Equal(got, s.want) {
					t.Errorf("%s has gone: %v are woken, want %v", s.gone, got, s.want)
				}
				if _, worthIt := l.GoneFor(x, s.gone); worthIt != s.wantWorthIt {
					t.Errorf("%s has gone: worth another try %v, want %v", s.gone, worthIt, s.wantWorthIt)
				}
			}
			if n := l.Len(); n != 0 || len(l.byVictim) != 0 {
				t.Errorf("%d entries and %v are left", n, l.byVictim)
			}
		})
	}
}

// TestVictimsForOne checks the end of a pod that is reported twice: by the informer and by the
// scheduler's queue.
func TestVictimsForOne(t *testing.T) {
	t.Parallel()
	x, y := podNamed("x"), podNamed("y")
	e := newWorld()
	l := e.Waits
	l.WaitForVictims(x, []string{"a", "b"}, workload.Requires("a", "b"))
	l.WaitForVictims(y, []string{"a"}, nil)
	type word struct{ awaited, worthIt bool }
	for _, s := range []struct {
		uid  string
		want word
	}{
		{"unrelated", word{}},
		{"a", word{awaited: true}},
		{"a", word{awaited: true}},
		{"b", word{awaited: true, worthIt: true}},
		{"b", word{}},
	} {
		awaited, worthIt := l.GoneFor(x, s.uid)
		if got := (word{awaited, worthIt}); got != s.want {
			t.Errorf("%s has gone: %+v, want %+v", s.uid, got, s.want)
		}
	}
	if got := goneOf(l, "a"); !slices.Equal(got, []workload.Key{y}) {
		t.Errorf("a frees %v, want the other", got)
	}
}

// TestVictimsThatStay checks that a pod that will not terminate ends the waits of its workloads for
// all pods. These workloads are retried.
func TestVictimsThatStay(t *testing.T) {
	t.Parallel()
	x, y := podNamed("x"), podNamed("y")
	e := newWorld()
	l := e.Waits
	l.WaitForVictims(x, []string{"a", "b"}, nil)
	l.WaitForVictims(y, []string{"b"}, nil)
	if got := staysOf(l, "a"); !slices.Equal(got, []workload.Key{x}) {
		t.Errorf("a stays: %v look again", got)
	}
	if got := goneOf(l, "b"); !slices.Equal(got, []workload.Key{y}) {
		t.Errorf("b frees %v", got)
	}
	if n := l.Len(); n != 0 || len(l.byVictim) != 0 {
		t.Errorf("%d entries and %v are left", n, l.byVictim)
	}
}

// TestNothingIsLost checks over random operations that each waiting workload has a cause that will
// retry it. It also checks that no state is left after all workloads have ended.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	keys := []workload.Key{podNamed("x"), gangNamed("x"), podNamed("y")}
	uids := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		e, now := newWorld(), 0
		l := e.Waits
		key := rapid.SampledFrom(keys)
		cause := rapid.Map(rapid.IntRange(0, int(causes)-1), func(i int) Cause { return Cause(i) })
		uid := rapid.SampledFrom(uids)
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				k, c := key.Draw(t, "key"), cause.Draw(t, "cause")
				if l.Wait(k, c, l.Mark()) != l.WaitsFor(k, c) {
					t.Fatalf("%v does not wait for %d", k, c)
				}
			},
			"wait until": func(t *rapid.T) {
				l.WaitUntil(key.Draw(t, "key"), cause.Draw(t, "cause"), atSecond(now+rapid.IntRange(0, 9).Draw(t, "in")))
			},
			"resolve": func(t *rapid.T) { l.Resolve(key.Draw(t, "key"), cause.Draw(t, "cause")) },
			"end": func(t *rapid.T) {
				c := cause.Draw(t, "cause")
				endOf(l, c)
				for _, k := range keys {
					if l.WaitsFor(k, c) {
						t.Fatalf("%v waits for what has ended", k)
					}
				}
			},
			"victims": func(t *rapid.T) {
				l.WaitForVictims(key.Draw(t, "key"), rapid.SliceOfDistinct(uid, rapid.ID).Draw(t, "pods"), workload.Requires("a"))
			},
			"gone":   func(t *rapid.T) { goneOf(l, uid.Draw(t, "pod")) },
			"stays":  func(t *rapid.T) { staysOf(l, uid.Draw(t, "pod")) },
			"evict":  func(t *rapid.T) { l.EndEviction(l.StartEviction(key.Draw(t, "key"))) },
			"fail":   func(t *rapid.T) { l.Failed(key.Draw(t, "key"), Backing{}) },
			"placed": func(t *rapid.T) { e.Step(at(0), WorkloadPlaced{key.Draw(t, "key")}) },
			"enter":  func(t *rapid.T) { e.Turns.Enter(admission.Waiter{Key: key.Draw(t, "key"), Queue: "q"}, atSecond(now)) },
			"turns":  func(*rapid.T) { e.Turns.Admit(nil, atSecond(now)) },
			"fails":  func(t *rapid.T) { e.Turns.TurnFailed(key.Draw(t, "key")) },
			"later": func(*rapid.T) {
				now += 5
				dueOf(l, atSecond(now))
				if next, ok := e.NextLook(atSecond(now)); ok && !next.After(atSecond(now)) {
					t.Fatalf("the next look is at %v, which has come", next)
				}
			},
			"": func(t *rapid.T) {
				for k, r := range l.records {
					e := r.waits
					if e == nil {
						continue
					}
					waits := e.victims != nil || e.making != nil || e.failures > 0
					for c := range causes {
						waits = waits || l.WaitsFor(k, c)
					}
					if !waits {
						t.Fatalf("%v is kept for nothing", k)
					}
				}
				for _, waiting := range l.byVictim {
					for k, e := range waiting {
						if l.entry(k) != e || e.victims == nil {
							t.Fatalf("%v is to be woken by a pod that it does not wait for", k)
						}
					}
				}
			},
		})
		for _, k := range keys {
			e.leaves(k)
		}
		if n := l.Len(); n != 0 || len(l.byVictim) != 0 || len(l.deadlines.Items) != 0 {
			t.Fatalf("%d entries, %v and %d moments are left", n, l.byVictim, len(l.deadlines.Items))
		}
	})
}

// TestLeaveToVictims checks that a workload waits for goingTime if a needed victim is left, and
// otherwise does not wait.
func TestLeaveToVictims(t *testing.T) {
	t.Parallel()
	x, start := podNamed("x"), atSecond(0)
	for name, c := range map[string]struct {
		waits func(l *Waits)
		want  bool
	}{
		"it waits for nothing":            {waits: func(*Waits) {}},
		"one that is needed is left":      {waits: func(l *Waits) { l.WaitForVictims(x, []string{"a", "b"}, workload.Requires("a")) }, want: true},
		"one that is not needed is left":  {waits: func(l *Waits) { l.WaitForVictims(x, []string{"a"}, nil) }},
		"the one that was needed is gone": {waits: func(l *Waits) { l.WaitForVictims(x, []string{"a", "b"}, workload.Requires("a")); goneOf(l, "a") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newWorld()
			l := e.Waits
			c.waits(l)
			if got := l.LeaveToVictims(x, start); got != c.want {
				t.Errorf("left: %v, want %v", got, c.want)
			}
			if got := len(dueOf(l, start.Add(goingTime-1))); got != 0 {
				t.Errorf("%d are due before they have taken long", got)
			}
			if got := len(dueOf(l, start.Add(goingTime))) == 1; got != c.want {
				t.Errorf("due when they have taken long: %v, want %v", got, c.want)
			}
		})
	}
}

// TestDepartureEndsTheLook checks that the Going cause ends when the needed victims are gone, or
// when the workload waits for other pods instead.
func TestDepartureEndsTheLook(t *testing.T) {
	t.Parallel()
	x, start := podNamed("x"), atSecond(0)
	for name, c := range map[string]struct {
		then func(e *Engine)
		want int
	}{
		"nothing happens":                  {then: func(*Engine) {}, want: 1},
		"one goes that is not needed":      {then: func(e *Engine) { goneOf(e.Waits, "b") }, want: 1},
		"the last goes that is needed":     {then: func(e *Engine) { goneOf(e.Waits, "a") }},
		"the queue hears of it":            {then: func(e *Engine) { e.Waits.GoneFor(x, "a") }},
		"all go":                           {then: func(e *Engine) { goneOf(e.Waits, "b"); goneOf(e.Waits, "a") }},
		"one stays":                        {then: func(e *Engine) { staysOf(e.Waits, "b") }},
		"it is decided to wait for others": {then: func(e *Engine) { e.Waits.WaitForVictims(x, []string{"c"}, workload.Requires("c")) }},
		"it waits for none any more":       {then: func(e *Engine) { e.Waits.ResolveVictims(x) }},
		"it has its place":                 {then: func(e *Engine) { e.Step(at(0), WorkloadPlaced{x}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newWorld()
			l := e.Waits
			l.WaitForVictims(x, []string{"a", "b"}, workload.Requires("a"))
			l.LeaveToVictims(x, start)
			c.then(e.Engine)
			if got := len(dueOf(l, start.Add(goingTime))); got != c.want {
				t.Errorf("%d looks are due, want %d", got, c.want)
			}
		})
	}
}

// TestEndFor checks that EndFor retries the selected workloads. It also checks that Wait with an
// earlier mark returns false for any workload.
func TestEndFor(t *testing.T) {
	t.Parallel()
	x, y, z := gangNamed("x"), gangNamed("y"), gangNamed("z")
	l := newWorld().Waits
	before := l.Mark()
	for _, key := range []workload.Key{x, y} {
		if !l.Wait(key, Queue, l.Mark()) {
			t.Fatalf("%v does not wait", key)
		}
	}
	if got := l.EndFor(Queue, func(key workload.Key) bool { return key == y }); !slices.Equal(got, []workload.Key{y}) {
		t.Errorf("%v are woken, want y", got)
	}
	if !l.WaitsFor(x, Queue) || l.WaitsFor(y, Queue) {
		t.Error("the wrong one still waits")
	}
	if l.Wait(z, Queue, before) {
		t.Error("one that looked before waits for what has ended since")
	}
}

// TestRetryAtEach checks that the end of each pod of RetryAtEach retries the workload, regardless
// of the other pods that the workload waits for.
func TestRetryAtEach(t *testing.T) {
	t.Parallel()
	e := newWorld()
	l := e.Waits
	one, other := podNamed("x"), podNamed("y")
	l.WaitForVictims(one, []string{"v"}, workload.Requires("v"))
	l.RetryAtEach(one, []string{"x", "y"})
	l.RetryAtEach(other, []string{"x"})
	if !l.WaitsForVictim(other, "x") || !l.WaitsForVictims(other) || l.IsShort(other) {
		t.Error("The other one does not wait for x, or needs it gone")
	}
	if !l.ShareVictims(one, other) {
		t.Error("Both wait for x, and share no victim")
	}
	if got := goneOf(l, "x"); !slices.Equal(got, []workload.Key{one, other}) {
		t.Errorf("Once x has gone, %v are tried", got)
	}
	if l.ShareVictims(one, other) {
		t.Error("They share a victim that has gone")
	}
	if awaited, worthIt := l.GoneFor(one, "y"); !awaited || !worthIt {
		t.Errorf("y is awaited: %t, and worth a try: %t", awaited, worthIt)
	}
	if got := goneOf(l, "v"); !slices.Equal(got, []workload.Key{one}) {
		t.Errorf("Once v has gone, %v are tried", got)
	}
	if got := l.Len(); got != 0 {
		t.Errorf("%d workloads are still waited for", got)
	}
}
