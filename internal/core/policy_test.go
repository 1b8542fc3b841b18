package core

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// TestJudge has one case for each rule, and one for each boundary between two rules.
func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		preemptor Preemptor
		unit      Unit
		want      Verdict
	}{
		"lower priority": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 9},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"equal priority": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 10},
			want:      Verdict{Rule: RuleNotLowerPriority},
		},
		"higher priority": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 11},
			want:      Verdict{Rule: RuleNotLowerPriority},
		},
		"the ends of the range": {
			preemptor: Preemptor{Priority: math.MaxInt32},
			unit:      Unit{Priority: math.MinInt32},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"own gang, though lower in priority": {
			preemptor: Preemptor{Priority: 10, PodGroup: "a"},
			unit:      Unit{Priority: 1, PodGroup: "a"},
			want:      Verdict{Rule: RuleOwnGang},
		},
		"another gang": {
			preemptor: Preemptor{Priority: 10, PodGroup: "a"},
			unit:      Unit{Priority: 1, PodGroup: "b"},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"a static pod": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 1, Static: true},
			want:      Verdict{Rule: RuleStaticPod},
		},
		"a static pod, of the most urgent": {
			preemptor: Preemptor{Priority: math.MaxInt32, IgnoresTolerations: true},
			unit:      Unit{Priority: 1, Static: true},
			want:      Verdict{Rule: RuleStaticPod},
		},
		"its deletion was refused": {
			preemptor: Preemptor{Priority: math.MaxInt32, IgnoresTolerations: true, Now: 7},
			unit:      Unit{Priority: 1, RefusedUntil: 7},
			want:      Verdict{Rule: RuleDeletionRefused, Until: 7},
		},
		"its deletion was refused before": {
			preemptor: Preemptor{Priority: 10, Now: 8},
			unit:      Unit{Priority: 1, RefusedUntil: 7},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"a stale gang of equal priority": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 9, Stale: true, Lacks: 1, Group: true, PodGroup: "b"},
			want:      Verdict{Eligible: true, Rule: RuleStaleGang},
		},
		"a stale gang of higher priority": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 10, Stale: true, Lacks: 1, Group: true, PodGroup: "b"},
			want:      Verdict{Rule: RuleNotLowerPriority},
		},
		"a stale gang within its toleration": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 9, Stale: true, Lacks: 1, Group: true, PodGroup: "b", Toleration: &Toleration{Below: 11, Until: 7}},
			want:      Verdict{Rule: RuleToleration, Until: 7},
		},
		"within its toleration": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7}},
			want:      Verdict{Rule: RuleToleration, Until: 7},
		},
		"exactly at the end of its toleration": {
			preemptor: Preemptor{Priority: 10, Now: 7},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7}},
			want:      Verdict{Rule: RuleToleration, Until: 7},
		},
		"after its toleration": {
			preemptor: Preemptor{Priority: 10, Now: 8},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7}},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"a toleration that does not reach as high": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 10, Until: 7}},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"a toleration without an end": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: Forever}},
			want:      Verdict{Rule: RuleToleration},
		},
		"a toleration whose clock has not begun": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: Forever, Lasts: 7}},
			want:      Verdict{Rule: RuleToleration, Until: 12},
		},
		"the disruption mode Never, within its time": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7, Never: true}},
			want:      Verdict{Rule: RuleNever, Until: 7},
		},
		"the disruption mode Never, after its time": {
			preemptor: Preemptor{Priority: 10, Now: 8},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7, Never: true}},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"the disruption mode Never, against system-critical": {
			preemptor: Preemptor{Priority: systemCritical, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: systemCritical, Until: 7, Never: true}},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"the disruption mode Never, in a profile without tolerations": {
			preemptor: Preemptor{Priority: 10, Now: 5, IgnoresTolerations: true},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7, Never: true}},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"of a class that does not exist": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: systemCritical, Until: Forever, ClassNotFound: true}},
			want:      Verdict{Rule: RuleClassNotFound},
		},
		"of a class that does not exist, against system-critical": {
			preemptor: Preemptor{Priority: systemCritical, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: systemCritical, Until: Forever, ClassNotFound: true}},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"two pods without a gang": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 1},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeAlone(&tc.preemptor, &tc.unit); got != tc.want {
				t.Errorf("judge() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

// judgeAlone returns the verdict on the only unit of a cluster without queues.
func judgeAlone(p *Preemptor, u *Unit) Verdict {
	unit, preemptor := *u, *p
	unit.Pods, preemptor.Classes = nil, nil
	s := &Snapshot{Units: []Unit{unit}}
	return judge(newPolicy(newView(s, &preemptor, Arithmetic{}), protections()), 0)
}

func TestJudgeForbidden(t *testing.T) {
	abc := []fairshare.Queue{queue("a"), queue("b")}
	for name, tc := range map[string]struct {
		preemptor *Preemptor
		want      Verdict
	}{
		"preemptionPolicy Never":       {preemptor: &Preemptor{Priority: 10, Never: true}, want: Verdict{Rule: RuleNeverPreempts}},
		"Never counts in a queue":      {preemptor: &Preemptor{Priority: 10, Never: true, Queue: "a"}, want: Verdict{Rule: RuleNeverPreempts}},
		"backing off":                  {preemptor: &Preemptor{Priority: 10, BacksOff: true}, want: Verdict{Rule: RuleNeverPreempts}},
		"backing off, in a queue":      {preemptor: &Preemptor{Priority: 10, BacksOff: true, Queue: "a"}, want: Verdict{Rule: RuleNeverPreempts}},
		"a queue that does not exist":  {preemptor: &Preemptor{Priority: 10, Queue: "gone"}, want: Verdict{Rule: RuleUnknownQueue}},
		"its own queue, by priority":   {preemptor: &Preemptor{Priority: 10, Queue: "b"}, want: Verdict{Eligible: true, Rule: RuleLowerPriority}},
		"another queue, by fair share": {preemptor: &Preemptor{Priority: 10, Queue: "a"}, want: Verdict{Eligible: true, Rule: RuleReclaim}},
		"system-critical, by priority": {preemptor: &Preemptor{Priority: systemCritical, Queue: "a"}, want: Verdict{Eligible: true, Rule: RuleLowerPriority}},
		"outside queues, by priority":  {preemptor: &Preemptor{Priority: 10}, want: Verdict{Eligible: true, Rule: RuleLowerPriority}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.preemptor.Classes, tc.preemptor.MinCount = []Class{members("w", 1, 0, 4)}, 1
			s := clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 8, inQueue("b")).queues(abc...).shared(tc.preemptor)
			if got := judge(newPolicy(newView(s, tc.preemptor, Arithmetic{}), protections()), 0); got != tc.want {
				t.Errorf("judge() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

// ruleFrozen is a rule that is added as CONTRIBUTING.md describes. It protects units by name.
const ruleFrozen Rule = "Frozen"

type frozen struct {
	names map[string]bool
	until int64
}

func (f frozen) protects(r *ruling, u int32) (Verdict, bool) {
	return Verdict{Rule: ruleFrozen, Until: f.until}, f.names[r.s.Units[u].Name] && (f.until == 0 || r.p.Now <= f.until)
}

// TestAddedRule adds a protection, and checks that it applies with and without queues, to pods and
// gangs. It must have an effect on the victims, ProtectedUnits, RetryAt and the guards.
func TestAddedRule(t *testing.T) {
	everything := map[string]bool{"v1": true, "v2": true}
	for name, tc := range map[string]struct {
		queues    []fairshare.Queue
		preemptor func() *Preemptor
		// sizes are the requests of v1 and v2; 4 for each if omitted.
		sizes [2]int64
	}{
		"a pod by priority":  {preemptor: func() *Preemptor { return podOf(10, 4) }},
		"a gang by priority": {preemptor: func() *Preemptor { return gangOf(10, 1, members("w", 1, 0, 4)) }},
		"a pod inside its queue": {
			queues: []fairshare.Queue{queue("v")}, preemptor: func() *Preemptor { return with(podOf(10, 4), ofQueue("v")) },
		},
		"a pod that reclaims": {
			queues: []fairshare.Queue{queue("a"), queue("v")}, preemptor: func() *Preemptor { return with(podOf(0, 4), ofQueue("a")) },
		},
		"a pod that reclaims from a queue that is judged as a whole": {
			queues: []fairshare.Queue{queue("a"), queue("v")}, sizes: [2]int64{1, 7},
			preemptor: func() *Preemptor { return with(podOf(0, 1), ofQueue("a")) },
		},
		"a gang that reclaims": {
			queues:    []fairshare.Queue{queue("a"), queue("v")},
			preemptor: func() *Preemptor { return with(gangOf(0, 1, members("w", 1, 0, 4)), ofQueue("a")) },
		},
		"a pod beside min-runtimes": {
			preemptor: func() *Preemptor {
				return with(podOf(10, 4), at(minute), func(p *Preemptor) { p.MinRuntime.Preempt = 1 })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, sizes := tc.preemptor(), tc.sizes
			if sizes[0] == 0 {
				sizes = [2]int64{4, 4}
			}
			s := clusterOf("gpu").node("n", 8).
				pod("v1", "n", 1, sizes[0], inQueue("v"), since(1)).pod("v2", "n", 2, sizes[1], inQueue("v"), since(1)).
				queues(tc.queues...).shared(p)
			decideWith := func(rules ...protection) Decision {
				d, _, err := decide(s, p, nil, append(protections(), rules...))
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			if d := decideWith(); !slices.Equal(victimNames(&d), []string{"v1"}) {
				t.Fatalf("takes %v without the rule, want v1", victimNames(&d))
			}
			d := decideWith(frozen{names: map[string]bool{"v1": true}})
			if !slices.Equal(victimNames(&d), []string{"v2"}) {
				t.Errorf("takes %v with v1 under the rule, want v2", victimNames(&d))
			}
			if want := []RuleCount{{Rule: ruleFrozen, Units: 1}}; !slices.Equal(d.Protected, want) {
				t.Errorf("protected %v, want %v", d.Protected, want)
			}
			if len(d.ProtectedUnits) != 1 || d.ProtectedUnits[0].Name != "v1" || d.ProtectedUnits[0].Rule != ruleFrozen {
				t.Errorf("names %+v as protected, want v1 by the rule", d.ProtectedUnits)
			}
			d = decideWith(frozen{names: everything, until: 5 * minute})
			if want := "(Frozen) and 1 more unit are protected no longer"; d.Outcome != Infeasible || !strings.Contains(d.Message, want) {
				t.Errorf("%s with all under the rule: %q, want it to say %q", d.Outcome, d.Message, want)
			}
			d = decideWith(frozen{names: everything})
			if want := "; 2 units are protected (Frozen)"; d.Outcome != Infeasible || !strings.HasSuffix(d.Message, want) {
				t.Errorf("%s with all under the rule for good: %q, want it to end with %q", d.Outcome, d.Message, want)
			}
			got := guards(s, p, append(protections(), frozen{names: map[string]bool{"v1": true}, until: 5 * minute}))
			if want := []Guard{{Unit: 0, Rule: ruleFrozen, Until: 5 * minute}}; !cmp.Equal(got, want) || s.Units[0].Name != "v1" {
				t.Errorf("protected from anyone are %+v, want v1 by the rule", got)
			}
		})
	}
}

// aboutEvery hides the optional methods of a protection, so that the protection is called for every
// unit.
type aboutEvery struct{ protection }

// TestShortcutsAreTheRules compares two kinds of decisions: protections are called only for units
// that they list, or for every unit. The results must be equal.
func TestShortcutsAreTheRules(t *testing.T) {
	protected := 0
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		shape.tolerations, shape.static = true, true
		s, p := randomCase(fromRapid(t), shape)
		if rapid.Bool().Draw(t, "queues") {
			var queues []fairshare.Queue
			s, p, queues = reclaimCase(t, shape)
			guardCase(t, s, queues)
		}
		got := mustDecide2(t, s, p)
		var every []protection
		for _, rule := range protections() {
			every = append(every, aboutEvery{rule})
		}
		want, _, err := decide(s, p, nil, every)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("with shortcuts (-without +with):\n%s", diff)
		}
		protected += len(got.ProtectedUnits)
	})
	if protected == 0 {
		t.Error("no unit was protected")
	}
}
