package engine

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// testGang is the key of the gang in the tests of this file.
var testGang = workload.Key{Gang: true, Namespace: "ns", Name: "g"}

func anybody(UID) bool { return true }

// TestGangsKeepsItsPromises checks the invariants of a Gangs over random operations.
func TestGangsKeepsItsPromises(t *testing.T) {
	t.Parallel()
	key := testGang
	uids := []UID{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		r := newTestGangs()
		able := map[UID]bool{"a": true, "b": true, "c": true, "d": true}
		planned := map[UID]string{}
		reserved := map[UID]bool{}
		var order []UID
		drop := func(uid UID) {
			delete(planned, uid)
			order = slices.DeleteFunc(order, func(o UID) bool { return o == uid })
		}
		member := rapid.SampledFrom(uids)
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				uid, before := member.Draw(t, "member"), r.Leader(key)
				got := r.Admit(key, uid, func(u UID) bool { return able[u] })
				_, isPlanned := planned[uid]
				switch {
				case isPlanned != (got == AdmitPlanned || got == HoldForOrder):
					t.Fatalf("%s for %s with plan %v", got, uid, planned)
				case isPlanned && (got == AdmitPlanned) != (uid == order[0]):
					t.Fatalf("%s for %s, where %v is the order", got, uid, order)
				case got == AdmitLeader && len(planned) > 0:
					t.Fatalf("%s leads although there is a plan", uid)
				case got == AdmitLeader && r.Leader(key) != uid:
					t.Fatalf("%s was admitted as leader, but %s leads", uid, r.Leader(key))
				case got == HoldForLeader && (before == "" || before == uid || !able[before]):
					t.Fatalf("%s is held for %q", uid, before)
				case got != AdmitLeader && r.Leader(key) != before:
					t.Fatalf("the leader changed from %q to %q by %s", before, r.Leader(key), got)
				}
			},
			"plan": func(t *rapid.T) {
				planned, order = map[UID]string{}, nil
				var seats []Assignment
				for i, uid := range rapid.SliceOfNDistinct(member, 1, 3, rapid.ID).Draw(t, "members") {
					if !reserved[uid] {
						planned[uid] = fmt.Sprint("node-", i)
						seats, order = append(seats, Assignment{uid, planned[uid]}), append(order, uid)
					}
				}
				r.SetPlan(key, seats)
				if l := r.Leader(key); l != "" {
					t.Fatalf("%s leads a gang that has a plan", l)
				}
			},
			"reserve": func(t *rapid.T) {
				uid := member.Draw(t, "member")
				if _, ok := planned[uid]; !ok {
					t.Skip("only planned members are reserved")
				}
				drop(uid)
				reserved[uid] = true
				if complete := r.Reserve(key, uid, "n"); complete != (len(planned) == 0) {
					t.Fatalf("complete is %v with %v still planned", complete, planned)
				}
			},
			"settle": func(t *rapid.T) {
				uid := member.Draw(t, "member")
				r.Settled(key, uid)
				delete(reserved, uid)
				drop(uid)
			},
			"release": func(t *rapid.T) {
				uid := member.Draw(t, "member")
				got := r.Release(key, uid)
				if len(got) != len(planned) {
					t.Fatalf("released %v, want %v", got, planned)
				}
				clear(planned)
				order = nil
				delete(reserved, uid)
			},
			"forget": func(t *rapid.T) {
				uid, leader := member.Draw(t, "member"), r.Leader(key)
				_, isPlanned := planned[uid]
				if got, want := r.MemberLeaves(key, uid), isPlanned || reserved[uid] || leader == uid; got != want {
					t.Fatalf("disturbed is %v, want %v", got, want)
				}
				drop(uid)
				delete(reserved, uid)
			},
			"pass on": func(t *rapid.T) {
				if leader := r.Leader(key); leader != "" && r.PassOn(key, leader)(leader) {
					t.Fatalf("%s may lead right after it was turned away", leader)
				}
			},
			"yield":         func(t *rapid.T) { r.Yield(key, member.Draw(t, "member")) },
			"become unable": func(t *rapid.T) { able[member.Draw(t, "member")] = false },
			"become able":   func(t *rapid.T) { able[member.Draw(t, "member")] = true },
			"": func(t *rapid.T) {
				for _, uid := range uids {
					node, ok := r.PlannedNode(key, uid)
					if want, wantOK := planned[uid]; ok != wantOK || node != want {
						t.Fatalf("%s is planned on %q (%v), want %q (%v)", uid, node, ok, want, wantOK)
					}
					if slices.Contains(r.Reserved(key), uid) != reserved[uid] {
						t.Fatalf("reserved are %v, want %v", r.Reserved(key), reserved)
					}
				}
				if next := r.Next(key); len(order) > 0 && next != order[0] || len(order) == 0 && next != "" {
					t.Fatalf("%q is next, of %v", next, order)
				}
				if r.Idle(key) != (r.Leader(key) == "" && len(planned) == 0) {
					t.Fatalf("idle is %v", r.Idle(key))
				}
			},
		})
	})
}

func TestGangsForgetsWhatIsOver(t *testing.T) {
	t.Parallel()
	key := testGang
	cases := map[string]func(*testGangs){
		"a leader that has gone": func(r *testGangs) { r.Admit(key, "a", anybody); r.MemberLeaves(key, "a") },
		"a plan that was carried out, after a look": func(r *testGangs) {
			r.SetPlan(key, []Assignment{{"a", "n"}})
			r.Reserve(key, "a", "n")
			r.Settled(key, "a")
			look(r, &Group{UID: "g", MinCount: 1}, nil, at(1))
		},
		"a plan that was taken back":   func(r *testGangs) { r.SetPlan(key, []Assignment{{"a", "n"}}); r.Release(key, "b") },
		"a late reservation":           func(r *testGangs) { r.Leaves(key); r.Reserve(key, "a", "n"); r.Release(key, "a") },
		"a verdict, when all are gone": func(r *testGangs) { r.SetVerdict(key, workload.Verdict{Reason: "X"}); r.Leaves(key) },
		"questions": func(r *testGangs) {
			r.Leader(key)
			r.Verdict(key)
			r.Idle(key)
			r.PodSensitive(key)
			r.Settled(key, "a")
		},
	}
	for name, do := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestGangs()
			do(r)
			if n := r.Len(); n != 0 {
				t.Errorf("%d gangs are remembered", n)
			}
		})
	}
}

func TestYieldLetsTheNextOneLead(t *testing.T) {
	t.Parallel()
	key := testGang
	r := newTestGangs()
	r.Admit(key, "a", anybody)
	if got := r.Admit(key, "b", anybody); got != HoldForLeader {
		t.Fatalf("b is %s", got)
	}
	r.Yield(key, "b")
	if got := r.Admit(key, "b", anybody); got != HoldForLeader {
		t.Errorf("b is %s after it gave up what it did not have", got)
	}
	r.Yield(key, "a")
	if got := r.Admit(key, "b", anybody); got != AdmitLeader || r.Leader(key) != "b" {
		t.Errorf("b is %s, and %s leads", got, r.Leader(key))
	}
	if got := r.Admit(key, "a", anybody); got != HoldForLeader {
		t.Errorf("a is %s", got)
	}
	r.Yield(key, "b")
	r.Yield(key, "a")
	if got := r.Admit(key, "a", anybody); got != AdmitLeader || r.Leader(key) != "a" {
		t.Errorf("a is %s after b gave up the lead and a had none to give up, and %s leads", got, r.Leader(key))
	}
}

func TestEveryMemberGetsItsTurnToLead(t *testing.T) {
	t.Parallel()
	key := testGang
	r := newTestGangs()
	for i, uid := range []UID{"a", "b", "c"} {
		r.Admit(key, uid, anybody)
		mayLead := r.PassOn(key, uid)
		for j, other := range []UID{"a", "b", "c"} {
			if mayLead(other) != (j > i) {
				t.Errorf("After %s, %s may lead: %v", uid, other, mayLead(other))
			}
		}
	}
	r.Planning(key)
	r.Admit(key, "a", anybody)
	if !r.PassOn(key, "a")("c") {
		t.Error("After the gang was planned, c may not lead")
	}
}

func TestVerdictTellsOfChangesOnly(t *testing.T) {
	t.Parallel()
	key := testGang
	told := 0
	var r *testGangs
	r = newTestGangsWith(func(got workload.Key) {
		// The callback calls a method of the Gangs. So the test hangs if the Gangs holds its lock.
		if r.Verdict(got).Reason == "" {
			t.Error("Told before the verdict stands")
		}
		told++
	})
	for _, v := range []workload.Verdict{{Reason: "A", Message: "x"}, {Reason: "A", Message: "x"}, {Reason: "A", Message: "y"}, {Reason: "B", Message: "y"}, {Reason: "B", Message: "y"}} {
		r.SetVerdict(key, v)
	}
	if told != 3 {
		t.Errorf("Told %d times, want 3", told)
	}
}

func TestUnresolved(t *testing.T) {
	t.Parallel()
	var changes []workload.Key
	r := newTestGangsWith(func(key workload.Key) { changes = append(changes, key) })
	key, v := testGang, workload.Verdict{Reason: "x", Message: "y"}
	if !r.SetUnresolved(key, v) || r.SetUnresolved(key, v) {
		t.Error("What is new is no news, or the other way about")
	}
	// Unresolved fields are recorded even if the gang has no members.
	r.Leaves(key)
	if got := r.Unresolved(key); got != v {
		t.Errorf("Lacks %+v, want %+v", got, v)
	}
	if !r.SetUnresolved(key, workload.Verdict{}) || r.Unresolved(key) != (workload.Verdict{}) {
		t.Error("It lacks something still")
	}
	if len(changes) != 2 {
		t.Errorf("Changed %d times, want 2", len(changes))
	}
}

// TestFailed checks that Failed returns true for the second of two plans that failed on the same
// nodes.
func TestFailed(t *testing.T) {
	t.Parallel()
	key := testGang
	plan := []Assignment{{"a", "n"}, {"b", "m"}}
	cases := map[string]struct {
		then      func(r *testGangs)
		wantAgain bool
	}{
		"the same plan":                    {then: func(r *testGangs) { r.SetPlan(key, plan) }, wantAgain: true},
		"another who goes first":           {then: func(r *testGangs) { r.SetPlan(key, []Assignment{{"b", "n"}, {"a", "m"}}) }, wantAgain: true},
		"another node":                     {then: func(r *testGangs) { r.SetPlan(key, []Assignment{{"a", "m"}, {"b", "m"}}) }},
		"the same after there was no room": {then: func(r *testGangs) { r.Unplanned(key); r.SetPlan(key, plan) }},
		"a plan that was carried out":      {then: func(r *testGangs) { r.SetPlan(key, plan[:1]); r.Reserve(key, "a", "n"); r.SetPlan(key, plan) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestGangs()
			r.SetPlan(key, plan)
			if r.Failed(key) || r.Stuck(key) {
				t.Error("The first refusal is taken for a second one")
			}
			r.Release(key, "a")
			c.then(r)
			if got := r.Failed(key); got != c.wantAgain || r.Stuck(key) != got {
				t.Errorf("again: %v, want %v; stuck: %v", got, c.wantAgain, r.Stuck(key))
			}
		})
	}
}

// TestSettled checks that Settled reports whether the member was still planned. The caller must
// then activate the next member.
func TestSettled(t *testing.T) {
	t.Parallel()
	r, key := newTestGangs(), testGang
	r.SetPlan(key, []Assignment{{"a", "n"}, {"b", "n"}})
	r.Reserve(key, "a", "n")
	if r.Settled(key, "a") {
		t.Error("one that is through is said to be planned")
	}
	if !r.Settled(key, "b") || r.Planned(key) != 0 {
		t.Error("one that is planned is not said to be, or still is")
	}
	if r.Settled(key, "b") {
		t.Error("one that is not planned any more is said to be")
	}
}

// TestLacks checks that Lacks is true until the needed number of planned members is reserved.
func TestLacks(t *testing.T) {
	t.Parallel()
	r, key := newTestGangs(), testGang
	r.SetPlan(key, []Assignment{{"a", "n"}, {"b", "n"}, {"c", "n"}})
	if r.Lacks(key) {
		t.Error("it is not known how many are needed, and it lacks some")
	}
	r.SetNeeded(key, 2)
	for _, member := range []UID{"a", "b"} {
		if !r.Lacks(key) {
			t.Errorf("before %s is through, it lacks none", member)
		}
		r.Reserve(key, member, "n")
	}
	if r.Lacks(key) {
		t.Error("with two of two through it lacks some")
	}
	r.SetPlan(key, []Assignment{{"c", "n"}})
	if r.Lacks(key) {
		t.Error("what was needed of one plan is needed of the next")
	}
}
