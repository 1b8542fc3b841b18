package engine

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

var exploreDepth = flag.Int("engine.depth", 5, "how many events in a row TestEveryOrder tries in all orders")

// step is an event of the exploration.
type step struct {
	name string
	do   func(*Engine)
	// wrong describes a fact that must not follow from the event; it is nil for most events.
	wrong func(*Engine) string
}

func (s *step) wrongAfter(e *Engine) string {
	if s.wrong == nil {
		return ""
	}
	return s.wrong(e)
}

// TestEveryOrder tries all orders of events in a small world, breadth first. The two pods of a gang
// arrive, are planned, wait, preempt, are bound and leave. Reports about the pods come at any time.
func TestEveryOrder(t *testing.T) {
	t.Parallel()
	explore(t, stepsOfAGang())
}

// explore tries all orders of the given events. Orders that lead to the same state are continued
// once. In every state, the indexes agree with the records, and only present workloads have facts
// about members. No record is left after all workloads end. No event restarts the clock of a gang
// that keeps a member, and every wait for a terminating pod has an end.
func explore(t *testing.T, steps []step) {
	t.Helper()
	replay := func(path []int) *Engine {
		e := New(nil)
		for _, i := range path {
			steps[i].do(e)
		}
		return e
	}
	fail := func(path []int, problem string) {
		names := make([]string, len(path))
		for i, at := range path {
			names[i] = steps[at].name
		}
		t.Fatalf("After %s: %s", strings.Join(names, ", "), problem)
	}
	seen, level := map[string]bool{"": true}, []explored{{}}
	for range *exploreDepth {
		var next []explored
		for _, before := range level {
			for i := range steps {
				longer := append(slices.Clone(before.path), i)
				e := replay(longer)
				if problem := cmp.Or(e.contradiction(), steps[i].wrongAfter(e), before.restarted(e, steps[i].name)); problem != "" {
					fail(longer, problem)
				}
				state := e.describe()
				if seen[state] {
					continue
				}
				seen[state] = true
				next = append(next, explored{longer, e.clockOfGang()})
				if problem := e.overstay(); problem != "" {
					fail(longer, problem)
				}
				endAll(e)
				if left := e.describe(); left != "" || e.Len() > 0 {
					fail(longer, fmt.Sprintf("the end of all leaves %d facts, in %s", e.Len(), left))
				}
			}
		}
		level = next
	}
	t.Logf("%d states", len(seen))
}

// lastLeaves is the name of the event that ends the run of the gang.
const lastLeaves = "the last member leaves"

var exploredPods = []string{"a", "b"}

// stepsOfAGang returns the events of two pods of a gang and of the gang itself.
func stepsOfAGang() []step {
	group := gangNamed("g")
	var out []step
	add := func(name string, do func(*Engine)) { out = append(out, step{name: name, do: do}) }
	for _, uid := range exploredPods {
		key := podNamed(uid)
		add(uid+" arrives", func(e *Engine) { e.Step(at(0), PodArrives{Pod: uid, Key: key, Group: group}) })
		add(uid+" arrives alone", func(e *Engine) { e.Step(at(0), PodArrives{Pod: uid, Key: key, Group: workload.Key{}}) })
		add(uid+" has a node in the group", func(e *Engine) { e.Step(at(0), PodRegroups{Pod: uid, Group: group}) })
		add(uid+" has a node alone", func(e *Engine) { e.Step(at(0), PodRegroups{Pod: uid, Group: workload.Key{}}) })
		add(uid+" leaves", func(e *Engine) { e.Step(at(0), PodLeaves{Pod: uid, Key: key, Controller: "rs"}) })
		add(uid+" is bound", func(e *Engine) { e.Step(at(0), PodBinds{Pod: uid, Key: key}); e.Gangs.Settled(group, uid) })
		add(uid+" is admitted", func(e *Engine) { e.Gangs.Admit(group, uid, anybody) })
		add(uid+" begins", func(e *Engine) { e.Pods.Begins(uid, group) })
		add(uid+" is assumed", func(e *Engine) {
			e.Step(at(0), PodAssumes{Pod: uid, Key: key, Node: "n"})
			e.Gangs.Reserve(group, uid, "n")
		})
		add(uid+" gives up", func(e *Engine) {
			e.Pods.GivesUp(uid, group, "n")
			e.Step(at(0), PlanReleased{Group: group, Failed: uid})
		})
		add(uid+" is awaited", func(e *Engine) { e.Pods.Awaits(uid, group) })
		add(uid+" ends", func(e *Engine) { e.Pods.Ends(uid) })
	}
	add(lastLeaves, func(e *Engine) { e.Step(at(0), GroupLeaves{group}) })
	add("a member runs", func(e *Engine) { e.Step(at(0), GroupArrives{group}); e.Gangs.Touch(group) })
	add("a plan", func(e *Engine) {
		e.Gangs.SetPlan(group, []Assignment{{"a", "n"}, {"b", "n"}})
		e.Step(at(0), WorkloadPlaced{group})
	})
	add("no room", func(e *Engine) {
		e.Turns.TurnFailed(group)
		e.Waits.Wait(group, Reserved, e.Waits.Mark())
		e.Gangs.FoundNoRoom(group, workload.Verdict{Reason: "Unschedulable"}, true, at(0))
	})
	add("a preemption", func(e *Engine) {
		e.Unbound.Preempts(group)
		e.Crashes.Preempts(group, CrashLimit{Starts: 1, Backing: doubling}, at(0))
		e.Waits.WaitForVictims(group, []string{"v", "w"}, workload.Requires("v"))
		e.Waits.StartEviction(group)
	})
	add("a failed call", func(e *Engine) { e.Waits.WaitUntil(group, Backoff, at(1)) })
	add("a failed binding", func(e *Engine) { e.Unbound.Fails(group, Failure{Stage: "Bind"}, "", doubling, at(0)) })
	add("room is released", func(e *Engine) { e.Step(at(0), CauseEnds{Reserved}) })
	add("a victim is gone", func(e *Engine) { e.Step(at(0), VictimGone{"v"}) })
	add("a victim stays", func(e *Engine) { e.Step(at(0), VictimStays{"w"}) })
	add("a turn", func(e *Engine) { e.Turns.Enter(admission.Waiter{Key: group, Queue: "q"}, at(0)) })
	return out
}

// endAll ends all workloads of the test, and the attempts of their pods.
func endAll(e *Engine) {
	for _, uid := range exploredPods {
		e.Step(at(0), PodLeaves{Pod: uid, Key: podNamed(uid), Controller: ""})
		e.Pods.Ends(uid)
	}
	e.Step(at(0), PodLeaves{Pod: "c", Key: podNamed("a"), Controller: ""})
	e.Step(at(0), PodLeaves{Pod: "v", Key: podNamed("v"), Controller: ""})
	e.Step(at(0), GroupLeaves{gangNamed("g")})
	e.Unbound.Ends(gangNamed("g"))
	e.Crashes.Ends(gangNamed("g"))
}

// contradiction describes a contradiction between indexes and records; "" for none.
func (e *Engine) contradiction() string {
	for key, r := range e.store.records {
		switch {
		case *r == (record{}):
			return fmt.Sprintf("the record of %v is empty", key)
		case !r.present && r.waits != nil:
			return fmt.Sprintf("%v waits and is not present", key)
		case !r.present && r.gang != nil && (!r.gang.placing.isEmpty() || !r.gang.run.isEmpty() || !r.gang.report.isEmpty()):
			return fmt.Sprintf("%v has facts about members and is not present", key)
		case r.pending > 0 && !r.present:
			return fmt.Sprintf("%v has %d pending members and is not present", key, r.pending)
		}
	}
	for uid, waiting := range e.Waits.byVictim {
		for key, entry := range waiting {
			if e.Waits.entry(key) != entry || entry.victims == nil || !entry.victims.left[uid] {
				return fmt.Sprintf("%v is to be retried when %s is gone, and does not wait for it", key, uid)
			}
		}
	}
	for _, d := range e.Waits.deadlines.Items {
		if e.Waits.entry(d.entry.key) != d.entry || d.entry.until[d.cause] != d {
			return fmt.Sprintf("%v has a deadline for %v, and does not wait for it", d.entry.key, d.cause)
		}
	}
	for uid := range e.Pods.assumed {
		if p := e.Pods.records[uid]; p == nil || p.node == "" {
			return uid + " is assumed without a node"
		}
	}
	return ""
}

// describe returns all facts of an Engine as text. Two Engines have the same description exactly if
// they have the same facts.
func (e *Engine) describe() string {
	var out []string
	for key, r := range e.store.records {
		line := fmt.Sprintf("%v %t %d", key, r.present, r.pending)
		if r.gang != nil {
			p := r.gang.placing
			line += fmt.Sprint(" run ", r.gang.run.Clock, slices.Sorted(maps.Keys(r.gang.run.had)), r.gang.run.group)
			line += fmt.Sprintf(" gang %q %v %v %q %t %v %t %v", p.leader, p.order, slices.Sorted(maps.Keys(p.reserved)), p.failed, p.stuck, r.gang.run.touched, r.gang.run.lost, r.gang.report.verdict)
		}
		if w := r.waits; w != nil {
			for c := range causes {
				if _, ok := e.Waits.waiting[c][key]; ok {
					line += " " + c.String()
				}
			}
			if w.victims != nil {
				line += fmt.Sprint(" victims ", len(w.victims.left), len(w.victims.shortages), len(w.victims.gone))
			}
			line += fmt.Sprint(" ", w.making != nil, w.failures)
		}
		if u := r.unbound; u != nil {
			line += fmt.Sprint(" unbound ", u.made, u.preemptions, u.failures)
		}
		out = append(out, line)
	}
	for uid, p := range e.Pods.records {
		out = append(out, uid+" "+p.describe())
	}
	for uid, arrived := range e.store.pods {
		out = append(out, fmt.Sprint(uid, " of ", arrived.group))
	}
	if n := e.Turns.Len(); n > 0 {
		out = append(out, fmt.Sprint("turns ", n, e.Turns.TurnOf(gangNamed("g"), "q")))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
