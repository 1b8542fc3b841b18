package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// inhabited is an Engine in which all workloads of the tests are present.
type inhabited struct{ *Engine }

func newWorld() *inhabited { return newWorldWith(nil) }

func newWorldWith(verdictChanged func(workload.Key)) *inhabited {
	w := &inhabited{New(verdictChanged)}
	for _, name := range []string{"p", "q", "m", "a", "b", "c", "d", "x", "y", "z", "pod", "next", "moved", "gone"} {
		w.Step(at(0), PodArrives{Pod: name, Key: podNamed(name), Group: workload.Key{}})
		w.Step(at(0), GroupArrives{gangNamed(name)})
	}
	for _, group := range []workload.Key{testGang, theGang, other, gangNamed("gang")} {
		w.Step(at(0), GroupArrives{group})
	}
	return w
}

// leaves ends the presence of a workload of the tests.
func (w *inhabited) leaves(key workload.Key) {
	if key.Gang {
		w.Step(at(0), GroupLeaves{key})
	} else {
		w.Step(at(0), PodLeaves{Pod: key.Name, Key: key, Controller: ""})
	}
}

// testPods embeds the Pods of an Engine, with the events of the Engine that end their records.
type testPods struct {
	*Pods
	world *inhabited
}

func newTestPods() *testPods {
	w := newWorld()
	for _, name := range []string{"p", "q", "m", "a", "b", "c", "moved", "gone"} {
		w.Step(at(0), PodArrives{Pod: name, Key: podNamed(name), Group: workload.Key{}})
	}
	return &testPods{w.Pods, w}
}

func (ps *testPods) Leaves(uid UID) {
	ps.world.Step(at(0), PodLeaves{Pod: uid, Key: podNamed(uid), Controller: ""})
}
func (ps *testPods) Places(uid UID) { ps.world.Step(at(0), PodBinds{Pod: uid, Key: podNamed(uid)}) }

// Assumes reports that a pod is assumed on a node.
func (ps *testPods) Assumes(pod UID, key workload.Key, node string) {
	ps.world.Step(at(0), PodAssumes{Pod: pod, Key: key, Node: node})
}

// endOf, goneOf and the functions below end waits in the same way as Step, and return the workloads
// to retry.
func endOf(w *Waits, c Cause) []workload.Key {
	return locked(w, func() []workload.Key { return w.end(c) })
}
func goneOf(w *Waits, pod UID) []workload.Key {
	return locked(w, func() []workload.Key { return w.gone(pod) })
}
func staysOf(w *Waits, pod UID) []workload.Key {
	return locked(w, func() []workload.Key { return w.stays(pod) })
}
func dueOf(w *Waits, now time.Time) []expired {
	return locked(w, func() []expired { return w.due(now) })
}

func locked[T any](w *Waits, do func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return do()
}

type testGangs struct {
	*Gangs
	world *inhabited
}

func newTestGangs() *testGangs { return newTestGangsWith(nil) }

func newTestGangsWith(verdictChanged func(workload.Key)) *testGangs {
	w := newWorldWith(verdictChanged)
	return &testGangs{w.Gangs, w}
}

// Release releases the plan of a gang, and returns the members that were planned.
func (gs *testGangs) Release(key workload.Key, failed UID) []UID {
	planned := gs.order(key)
	gs.world.Step(at(0), PlanReleased{Group: key, Failed: failed})
	return planned
}

func (gs *testGangs) order(key workload.Key) (order []UID) {
	gs.read(key, func(g *gang) { order = g.placing.order })
	return order
}

func (gs *testGangs) Leaves(key workload.Key) { gs.world.Step(at(0), GroupLeaves{key}) }

// TestNoFactOutlivesItsWorkload checks, for random orders of events, that a record ends with its
// workload. Late events about workloads that have left must add no facts. Only the end of a pod's
// attempt may follow later.
func TestNoFactOutlivesItsWorkload(t *testing.T) {
	t.Parallel()
	group, names := gangNamed("g"), []string{"a", "b", "c"}
	late := lateEvents(group)
	rapid.Check(t, func(t *rapid.T) {
		e, joined := New(nil), make(map[string]bool)
		name := rapid.SampledFrom(names)
		t.Repeat(map[string]func(*rapid.T){
			"arrives": func(t *rapid.T) {
				n, of := name.Draw(t, "pod"), workload.Key{}
				if joined[n] = rapid.Bool().Draw(t, "in the group"); joined[n] {
					of = group
				}
				e.Step(at(0), PodArrives{Pod: n, Key: podNamed(n), Group: of})
			},
			"leaves": func(t *rapid.T) {
				n := name.Draw(t, "pod")
				e.Step(at(0), PodLeaves{Pod: n, Key: podNamed(n), Controller: ""})
				e.Step(at(0), GroupLeaves{group})
			},
			"binds": func(t *rapid.T) { n := name.Draw(t, "pod"); e.Step(at(0), PodBinds{Pod: n, Key: podNamed(n)}) },
			"event": func(t *rapid.T) {
				rapid.SampledFrom(late).Draw(t, "event")(e, name.Draw(t, "pod"))
			},
			"": func(t *rapid.T) {
				for key, r := range e.store.records {
					if *r == (record{}) {
						t.Fatalf("the record of %v is empty", key)
					}
					if !r.present && r.waits != nil {
						t.Fatalf("%v waits and is not present", key)
					}
				}
			},
		})
		for _, n := range names {
			e.Step(at(0), PodLeaves{Pod: n, Key: podNamed(n), Controller: ""})
		}
		e.Step(at(0), GroupLeaves{group})
		for _, event := range late {
			for _, n := range names {
				event(e, n)
			}
		}
		for _, n := range names {
			e.Pods.Ends(n)
		}
		e.Unbound.Ends(group)
		e.Crashes.Ends(group)
		if n := e.Len(); n > 0 || len(e.store.records) > 0 || len(e.store.pods) > 0 {
			t.Fatalf("%d facts, %d records and %d pods are left", n, len(e.store.records), len(e.store.pods))
		}
	})
}

// lateEvents returns events about a pod or its group that may come after the pod has left.
// Extension points, the main loop and outcomes of API calls report such events.
func lateEvents(group workload.Key) []func(*Engine, UID) {
	victims := []string{"v", "w"}
	waiter := func(key workload.Key) admission.Waiter { return admission.Waiter{Key: key, Queue: "q"} }
	var out []func(*Engine, UID)
	both := func(event func(e *Engine, key workload.Key)) {
		out = append(out, func(e *Engine, uid UID) { event(e, podNamed(uid)) }, func(e *Engine, _ UID) { event(e, group) })
	}
	for c := range causes {
		both(func(e *Engine, key workload.Key) { e.Waits.Wait(key, c, e.Waits.Mark()) })
		both(func(e *Engine, key workload.Key) { e.Waits.WaitUntil(key, c, at(1)) })
	}
	both(func(e *Engine, key workload.Key) { e.Waits.Gather(key, at(1)) })
	both(func(e *Engine, key workload.Key) { e.Waits.WaitForVictims(key, victims, workload.Requires("v")) })
	both(func(e *Engine, key workload.Key) { e.Waits.RetryAtEach(key, victims) })
	both(func(e *Engine, key workload.Key) { e.Waits.StartEviction(key) })
	both(func(e *Engine, key workload.Key) { e.Waits.Failed(key, Backing{time.Second, time.Minute}) })
	both(func(e *Engine, key workload.Key) { e.Turns.Enter(waiter(key), at(0)) })
	both(func(e *Engine, key workload.Key) { e.Turns.AdmitDirectly(waiter(key), at(0)) })
	both(func(e *Engine, key workload.Key) { e.Turns.Pass(waiter(key), at(0)) })
	both(func(e *Engine, key workload.Key) { e.Turns.TurnFailed(key) })
	both(func(e *Engine, key workload.Key) { e.Step(at(0), WorkloadPlaced{key}) })
	both(func(e *Engine, key workload.Key) { e.Unbound.Preempts(key) })
	both(func(e *Engine, key workload.Key) { e.Crashes.Preempts(key, CrashLimit{Starts: 1}, at(0)) })
	both(func(e *Engine, key workload.Key) { e.Crashes.Restarts(key, key.UID, Failure{}, "", at(0)) })
	both(func(e *Engine, key workload.Key) { e.Unbound.Fails(key, Failure{}, "", Backing{}, at(0)) })
	return append(out,
		func(e *Engine, uid UID) { e.Pods.Begins(uid, group) },
		func(e *Engine, uid UID) { e.Pods.TakesTurn(uid) },
		func(e *Engine, uid UID) { e.Pods.JoinsPlan(uid, podNamed(uid)) },
		func(e *Engine, uid UID) { e.Step(at(0), PodAssumes{Pod: uid, Key: podNamed(uid), Node: "node"}) },
		func(e *Engine, uid UID) { e.Pods.GivesUp(uid, group, "node") },
		func(e *Engine, uid UID) { e.Pods.Awaits(uid, group) },
		func(e *Engine, uid UID) { e.Pods.Shows(uid, group) },
		func(e *Engine, uid UID) { e.Pods.LooksElsewhere(uid) },
		func(e *Engine, uid UID) { e.Pods.Nominates(uid, Nomination{Node: "node"}) },
		func(e *Engine, uid UID) { e.Pods.Blocked(uid, podNamed(uid), workload.Verdict{Reason: "Closed"}) },
		func(e *Engine, uid UID) { e.Gangs.Admit(group, uid, anybody) },
		func(e *Engine, uid UID) { e.Gangs.SetPlan(group, []Assignment{{uid, "node"}}) },
		func(e *Engine, uid UID) { e.Gangs.Reserve(group, uid, "node") },
		func(e *Engine, uid UID) { e.Gangs.AwaitResult(group, uid, Ended{Until: at(1)}) },
		func(e *Engine, _ UID) { e.Gangs.SetVerdict(group, workload.Verdict{Reason: "Pending"}) },
		func(e *Engine, _ UID) { e.Gangs.Touch(group) },
		func(e *Engine, _ UID) { e.Gangs.Lost(group) },
		func(e *Engine, _ UID) { e.Gangs.Failed(group) },
		func(e *Engine, _ UID) { e.Gangs.FoundNoRoom(group, workload.Verdict{Reason: "Pending"}, true, at(0)) },
		func(e *Engine, _ UID) { e.Gangs.CheckReport(group, at(0)) },
	)
}

// facts counts the groups with facts.
func (gs *testGangs) facts() int { return gs.count(func(*gang) bool { return true }) }
