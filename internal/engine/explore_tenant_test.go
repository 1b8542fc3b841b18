package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TestEveryOrderOfATenant is like [TestEveryOrder]. It combines the actions of a tenant with the
// gang's events that these actions may disturb.
func TestEveryOrderOfATenant(t *testing.T) {
	t.Parallel()
	disturbed := []string{
		"a arrives", "b arrives", "a arrives alone", "a is admitted", "b has a node in the group", "b is bound", "a plan", "a preemption",
		"no room", "a turn", lastLeaves,
	}
	steps := slices.DeleteFunc(stepsOfAGang(), func(s step) bool { return !slices.Contains(disturbed, s.name) })
	if len(steps) != len(disturbed) {
		t.Fatalf("%d of %d events exist", len(steps), len(disturbed))
	}
	explore(t, append(steps, stepsOfATenant()...))
}

// graceEnds is the time when terminating pods count as running again, in seconds.
const graceEnds = 100

// stepsOfATenant returns the actions of a tenant and their consequences. The tenant changes the
// group label of pods, deletes the PodGroup and creates it again, replaces a member, and deletes
// the victim v with a long grace period. The scheduler looks at the members at any time after these
// actions.
func stepsOfATenant() []step {
	group := gangNamed("g")
	leaves := func(e *Engine, uid UID) {
		e.Pods.LeavesPlan(uid)
		e.Gangs.MemberLeaves(group, uid)
		e.Gangs.Touch(group)
	}
	look := func(e *Engine, of string, uids ...UID) {
		placed := make([]Member, len(uids))
		for i, uid := range uids {
			placed[i] = Member{UID: uid, Scheduled: at(float64(uid[0] - 'a'))}
		}
		e.Step(at(0), GroupArrives{group})
		e.Gangs.EndLook(group, e.Gangs.BeginLook(group), &Group{UID: of, MinCount: 2}, placed, len(placed), at(10))
	}
	alone := podNamed("a")
	return []step{
		{name: "a waits alone", do: func(e *Engine) {
			if e.store.pods["a"].group == (workload.Key{}) {
				e.Waits.Wait(alone, Reserved, e.Waits.Mark())
			}
		}},
		{name: "a is relabeled into the gang", do: func(e *Engine) {
			e.Step(at(0), PodArrives{Pod: "a", Key: alone, Group: group})
			e.Step(at(0), PodRejoins{Pod: "a", Key: alone})
		}, wrong: func(e *Engine) string {
			if e.Waits.WaitsFor(alone, Reserved) {
				return "a member waits as a single pod"
			}
			return ""
		}},
		{name: "a is relabeled out of the gang", do: func(e *Engine) {
			e.Step(at(0), PodArrives{Pod: "a", Key: alone, Group: workload.Key{}})
			e.Step(at(0), PodRejoins{Pod: "a", Key: alone})
			leaves(e, "a")
		}, wrong: func(e *Engine) string {
			if _, planned := e.Gangs.PlannedNode(group, "a"); planned || e.Gangs.Leader(group) == "a" {
				return "a pod of no group leads the gang or is in its plan"
			}
			return ""
		}},
		{name: "the PodGroup is deleted", do: func(e *Engine) {
			e.Gangs.ForgetRun(group)
			e.Step(at(0), PlanReleased{Group: group})
			e.Step(at(0), Releases{group})
		}},
		{name: "c replaces a", do: func(e *Engine) {
			e.Step(at(0), PodLeaves{Pod: "a", Key: alone, Controller: "rs"})
			leaves(e, "a")
			e.Step(at(0), PodArrives{Pod: "c", Key: alone, Group: group})
		}},
		{name: "a look at a and b", do: func(e *Engine) { look(e, "g", "a", "b") }},
		{name: "a look at b and c", do: func(e *Engine) { look(e, "g", "b", "c") }},
		{name: "a look at b and c of another PodGroup", do: func(e *Engine) { look(e, "g2", "b", "c") }},
		{name: "v is deleted with a long grace period", do: func(e *Engine) {
			e.Step(at(0), PodArrives{Pod: "v", Key: podNamed("v")})
			e.Waits.WaitUntil(podNamed("v"), Departure, at(graceEnds))
		}},
	}
}

// explored is a state of an exploration: the events that lead to it, and the clock of the gang.
type explored struct {
	path  []int
	clock time.Time
}

// restarted returns a description if the event has restarted the gang's clock although the last
// member has not left; otherwise "".
func (x *explored) restarted(e *Engine, event string) string {
	if clock := e.clockOfGang(); event != lastLeaves && !x.clock.IsZero() && (clock.IsZero() || clock.After(x.clock)) {
		return fmt.Sprintf("the clock of the gang moves from %v to %v", x.clock, clock)
	}
	return ""
}

// clockOfGang returns the clock of the gang; zero for none.
func (e *Engine) clockOfGang() (clock time.Time) {
	e.Gangs.read(gangNamed("g"), func(g *gang) { clock = g.run.Clock })
	return clock
}

// overstay lets the grace period of v pass. If a wait for v has no end then, overstay returns a
// description of this wait; otherwise "". overstay changes the state.
func (e *Engine) overstay() string {
	if !e.store.isPresent(podNamed("v")) {
		return ""
	}
	if effects := e.Step(at(graceEnds), TimePasses{}); !slices.Contains(effects, Effect(Overdue{podNamed("v")})) {
		return "v terminates for ever"
	}
	e.Step(at(graceEnds), VictimStays{"v"})
	if len(e.Waits.byVictim["v"]) > 0 {
		return "a workload waits for v, which stays"
	}
	return ""
}
