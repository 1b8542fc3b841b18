package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

var (
	alone   = workload.Key{Namespace: "ns", Name: "p", UID: "p"}
	member  = workload.Key{Namespace: "ns", Name: "m", UID: "m"}
	theGang = workload.Key{Gang: true, Namespace: "ns", Name: "g"}
	other   = workload.Key{Gang: true, Namespace: "ns", Name: "h"}
)

// TestLives checks the state of a pod's record after each event of the pod's life.
func TestLives(t *testing.T) {
	t.Parallel()
	type step struct {
		event func(*testPods)
		want  string
	}
	for name, steps := range map[string][]step{
		"a pod that is bound": {
			{func(ps *testPods) { ps.Begins("p", alone) }, "as ns/p"},
			{func(ps *testPods) { ps.TakesTurn("p") }, "as ns/p turn"},
			{func(ps *testPods) { ps.HasReservation("p") }, "as ns/p reserved turn"},
			{func(ps *testPods) { ps.Hears("p") }, "as ns/p"},
			{func(ps *testPods) { ps.Assumes("p", alone, "node-0") }, "as ns/p on node-0"},
			{func(ps *testPods) { ps.Places("p") }, ""},
		},
		"a pod that finds no room": {
			{func(ps *testPods) { ps.Begins("p", alone) }, "as ns/p"},
			{func(ps *testPods) { ps.Shows("p", alone) }, "as ns/p shown"},
			{func(ps *testPods) { ps.Ends("p") }, ""},
		},
		"a pod that another plugin refuses first": {
			{func(ps *testPods) { ps.Shows("p", alone) }, "as ns/p shown"},
			{func(ps *testPods) { ps.Ends("p") }, ""},
		},
		"an attempt for a gang stays one": {
			{func(ps *testPods) { ps.Begins("m", theGang) }, "as ns/g"},
			{func(ps *testPods) { ps.Shows("m", other) }, "as ns/g shown"},
			{func(ps *testPods) { ps.GivesUp("m", member, "node-0") }, "as ns/g shown failed returns from node-0"},
		},
		"a binding that fails": {
			{func(ps *testPods) { ps.Begins("p", alone); ps.Assumes("p", alone, "node-0") }, "as ns/p on node-0"},
			{func(ps *testPods) { ps.GivesUp("p", alone, "node-0") }, "as ns/p failed returns from node-0"},
			{func(ps *testPods) { ps.Ends("p") }, "has returned from node-0"},
			{func(ps *testPods) { ps.HasReturned("p") }, ""},
		},
		"a binding that is canceled": {
			{func(ps *testPods) { ps.Begins("p", alone); ps.Assumes("p", alone, "node-0") }, "as ns/p on node-0"},
			{func(ps *testPods) { ps.Cancels("p") }, "as ns/p canceled on node-0"},
			{func(ps *testPods) { ps.KeepsBinding("p") }, "as ns/p on node-0"},
			{func(ps *testPods) { ps.Places("p") }, ""},
		},
		"a rejection lasts until the node is given up": {
			{func(ps *testPods) { ps.Assumes("m", member, "node-0") }, "on node-0"},
			{func(ps *testPods) { ps.Rejects("m") }, "on node-0 rejected"},
			{func(ps *testPods) { ps.Awaits("m", theGang) }, "on node-0 rejected returns from  for ns/g"},
			{func(ps *testPods) { ps.GivesUp("m", theGang, "node-0") }, "as ns/g failed returns from node-0 for ns/g"},
			{func(ps *testPods) { ps.Ends("m") }, "has returned from node-0"},
			{func(ps *testPods) { ps.Assumes("m", member, "node-1") }, "on node-1"},
		},
		"nobody rejects a pod without a node": {
			{func(ps *testPods) { ps.Rejects("m") }, ""},
			{func(ps *testPods) { ps.Awaits("m", theGang) }, ""},
		},
		"a pod looks elsewhere once": {
			{func(ps *testPods) { ps.Begins("p", alone); ps.LooksElsewhere("p") }, "as ns/p elsewhere"},
			{func(ps *testPods) { ps.Ends("p") }, "elsewhere"},
			{func(ps *testPods) { ps.HasLookedElsewhere("p") }, ""},
		},
		"a member is seated until it is assumed": {
			{func(ps *testPods) { ps.JoinsPlan("m", member) }, "seated"},
			{func(ps *testPods) { ps.Assumes("m", member, "node-0") }, "on node-0"},
		},
		"hidden nominations outlive the begin of an attempt": {
			{func(ps *testPods) { ps.Hides("p", "node-0", "q"); ps.Begins("p", alone) }, "as ns/p hidden q on node-0"},
			{func(ps *testPods) { ps.Reveals("p") }, "as ns/p"},
		},
		"a turn that was called back": {
			{func(ps *testPods) { ps.Begins("p", alone); ps.Recalls("p") }, "as ns/p recalled"},
			{func(ps *testPods) { ps.Ends("p") }, ""},
		},
		"a pod that leaves is one deletion": {
			{func(ps *testPods) {
				ps.Begins("p", alone)
				ps.TakesTurn("p")
				ps.HasReservation("p")
				ps.JoinsPlan("p", alone)
				ps.LooksElsewhere("p")
				ps.Assumes("p", alone, "node-0")
				ps.Rejects("p")
				ps.Leaves("p")
			}, ""},
		},
		"the framework still forgets the node of a pod that left": {
			{func(ps *testPods) { ps.GivesUp("p", alone, "node-0"); ps.Leaves("p") }, "returns from node-0"},
			{func(ps *testPods) { ps.Begins("p", alone); ps.Shows("p", alone) }, "as ns/p shown returns from node-0"},
			{func(ps *testPods) { ps.Ends("p") }, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ps := newTestPods()
			for i, s := range steps {
				s.event(ps)
				if got := stateOf(ps); got != s.want {
					t.Fatalf("after step %d the state is %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

// stateOf describes the only record of ps; "" if there is none.
func stateOf(ps *testPods) string {
	if ps.Len() > 1 {
		return fmt.Sprintf("%d records", ps.Len())
	}
	for _, p := range ps.records {
		return p.describe()
	}
	return ""
}

func (p *pod) describe() string {
	var out []string
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	a := p.attempt
	add(a.As != workload.Key{}, "as %s", a.As)
	add(a.Reserved, "reserved")
	add(a.Turn, "turn")
	add(a.Recalled, "recalled")
	add(a.Shown, "shown")
	add(a.Failed, "failed")
	add(a.Canceled, "canceled")
	add(len(a.Hidden) > 0, "hidden %s on %s", strings.Join(a.Hidden, ","), a.HiddenOn)
	add(p.seated, "seated")
	add(p.elsewhere, "elsewhere")
	add(p.node != "", "on %s", p.node)
	add(p.rejected, "rejected")
	if r := p.returns; r != nil {
		add(!r.forgotten, "returns from %s", r.node)
		add(r.forgotten, "has returned from %s", r.node)
		add(r.awaitedBy != workload.Key{}, "for %s", r.awaitedBy)
	}
	return strings.Join(out, " ")
}

// TestGangWaitsForTheLast checks that Ends returns a waiting gang only for the last pod that the
// gang waits for.
func TestGangWaitsForTheLast(t *testing.T) {
	t.Parallel()
	ps := newTestPods()
	for _, uid := range []UID{"a", "b", "c"} {
		ps.GivesUp(uid, theGang, "node-0")
	}
	for _, uid := range []UID{"a", "b"} {
		if !ps.Awaits(uid, theGang) {
			t.Fatalf("%s does not tell", uid)
		}
	}
	ps.Awaits("c", other)
	for _, c := range []struct {
		uid  UID
		want workload.Key
	}{{"a", workload.Key{}}, {"b", theGang}, {"c", other}, {"b", workload.Key{}}} {
		if _, got := ps.Ends(c.uid); got != c.want {
			t.Errorf("The end of %s is told to %v, want %v", c.uid, got, c.want)
		}
	}
	if ps.Awaits("a", theGang) {
		t.Error("a tells again")
	}
}

// TestAssumedDoesNotChange checks that later events do not change a set that Assumed has returned.
func TestAssumedDoesNotChange(t *testing.T) {
	t.Parallel()
	ps := newTestPods()
	ps.Assumes("p", alone, "node-0")
	before := ps.Assumed()
	ps.Places("p")
	ps.Assumes("m", member, "node-1")
	if !before.Has("p") || before.Has("m") || ps.Assumed().Has("p") || !ps.Assumed().Has("m") {
		t.Errorf("The sets are %v and %v", before, ps.Assumed())
	}
	if got := ps.AssumedOn("node-1"); !slices.Equal(got, []workload.Key{member}) || len(ps.AssumedOn("node-0")) > 0 {
		t.Errorf("On node-1 there is %v, on node-0 %v", got, ps.AssumedOn("node-0"))
	}
}

// TestEveryOrderOfEvents checks three conditions for random orders of events. The index of assumed
// pods agrees with the records, a rejected pod has a node, and no record is left after all pods
// have ended.
func TestEveryOrderOfEvents(t *testing.T) {
	t.Parallel()
	uids := []UID{"a", "b", "c"}
	events := []func(*testPods, UID){
		func(ps *testPods, uid UID) { ps.Begins(uid, theGang) },
		func(ps *testPods, uid UID) { ps.TakesTurn(uid) },
		func(ps *testPods, uid UID) { ps.Recalls(uid) },
		func(ps *testPods, uid UID) { ps.HasReservation(uid) },
		func(ps *testPods, uid UID) { ps.Hears(uid) },
		func(ps *testPods, uid UID) { ps.HearsReservation(uid) },
		func(ps *testPods, uid UID) { ps.Shows(uid, theGang) },
		func(ps *testPods, uid UID) { ps.Hides(uid, "node-0", "q") },
		func(ps *testPods, uid UID) { ps.Reveals(uid) },
		func(ps *testPods, uid UID) { ps.Cancels(uid) },
		func(ps *testPods, uid UID) { ps.KeepsBinding(uid) },
		func(ps *testPods, uid UID) { ps.JoinsPlan(uid, member) },
		func(ps *testPods, uid UID) { ps.LeavesPlan(uid) },
		func(ps *testPods, uid UID) { ps.LooksElsewhere(uid) },
		func(ps *testPods, uid UID) { ps.HasLookedElsewhere(uid) },
		func(ps *testPods, uid UID) { ps.Assumes(uid, member, "node-0") },
		func(ps *testPods, uid UID) { ps.GivesUp(uid, theGang, "node-0") },
		func(ps *testPods, uid UID) { ps.Rejects(uid) },
		func(ps *testPods, uid UID) { ps.Awaits(uid, theGang) },
		func(ps *testPods, uid UID) { ps.HasReturned(uid) },
		func(ps *testPods, uid UID) { ps.Places(uid) },
		func(ps *testPods, uid UID) { ps.Ends(uid) },
		func(ps *testPods, uid UID) { ps.Leaves(uid) },
	}
	rapid.Check(t, func(t *rapid.T) {
		ps := newTestPods()
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			rapid.SampledFrom(events).Draw(t, "event")(ps, rapid.SampledFrom(uids).Draw(t, "pod"))
			if rapid.Bool().Draw(t, "somebody has the set") {
				ps.Assumed()
			}
			for uid, p := range ps.records {
				if p.isEmpty() {
					t.Fatalf("the record of %s is empty, and there", uid)
				}
				if (p.node != "") != ps.IsAssumed(uid) {
					t.Fatalf("%s is on %q, and assumed: %t", uid, p.node, ps.IsAssumed(uid))
				}
				if p.rejected && p.node == "" {
					t.Fatalf("%s is rejected and has no node", uid)
				}
			}
			for uid := range ps.Assumed() {
				if ps.records[uid] == nil {
					t.Fatalf("%s is assumed without a record", uid)
				}
			}
		}
		for _, uid := range uids {
			ps.Leaves(uid)
			ps.Ends(uid)
			ps.Leaves(uid)
		}
		if ps.Len() > 0 || len(ps.Assumed()) > 0 {
			t.Fatalf("%d records are left, %d assumed", ps.Len(), len(ps.Assumed()))
		}
	})
}

// TestNominated checks that a nomination lasts until the pod has a node or is deleted.
func TestNominated(t *testing.T) {
	t.Parallel()
	ps := newTestPods()
	ps.Nominates("a", Nomination{Node: "n1"})
	ps.Nominates("b", Nomination{Node: "n2", Inflated: true})
	ps.Nominates("moved", Nomination{Node: "n3"})
	ps.Nominates("moved", Nomination{})
	ps.Nominates("gone", Nomination{Node: "n4"})
	ps.Leaves("gone")
	ps.Assumes("b", member, "n2")
	if got, want := ps.Nominated(), (map[UID]string{"a": "n1", "b": "n2"}); !maps.Equal(got, want) {
		t.Errorf("Nominated are %v, want %v", got, want)
	}
	if got, want := ps.Inflated(), (map[UID]string{"b": "n2"}); !maps.Equal(got, want) {
		t.Errorf("Inflated are %v, want %v", got, want)
	}
	ps.Places("b")
	ps.Nominates("a", Nomination{})
	if len(ps.Nominated())+len(ps.Inflated()) > 0 || ps.Len() > 0 {
		t.Errorf("%v are nominated still, and %d records are left", ps.Nominated(), ps.Len())
	}
}

// TestBlocked checks the reports on a pod that may not use its queue.
func TestBlocked(t *testing.T) {
	t.Parallel()
	ps := newTestPods()
	closed, full := workload.Verdict{Reason: "Closed", Message: "a"}, workload.Verdict{Reason: "Closed", Message: "b"}
	step := func(what string, v workload.Verdict, want ...PodReport) {
		t.Helper()
		if v == (workload.Verdict{}) {
			ps.Unblocked("a")
		} else {
			ps.Blocked("a", member, v)
		}
		if got := ps.Reports(10); !slices.Equal(got, want) {
			t.Errorf("%s: the reports are %v, want %v", what, got, want)
		}
	}
	step("it may use its queue", workload.Verdict{})
	step("it may not", closed, PodReport{Key: member, Verdict: closed})
	step("as before", closed)
	step("the same reason", full, PodReport{Key: member, Verdict: full, Again: true})
	ps.Assumes("a", member, "n")
	ps.GivesUp("a", member, "n")
	ps.Ends("a")
	ps.HasReturned("a")
	step("as before, after an attempt", full)
	step("it may again", workload.Verdict{}, PodReport{Key: member})
	if ps.Len() > 0 {
		t.Error("A record is left")
	}
	ps.Blocked("a", member, closed)
	ps.Blocked("b", member, closed)
	if n := len(ps.Reports(1)) + len(ps.Reports(10)); n != 2 {
		t.Errorf("%d reports, want 2", n)
	}
	ps.Leaves("a")
	ps.Leaves("b")
	if ps.Len() > 0 || len(ps.Reports(10)) > 0 {
		t.Error("Pods that have left have reports")
	}
}
