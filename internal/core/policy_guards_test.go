package core

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

func TestGuards(t *testing.T) {
	low := int32(5)
	static := func(u *Unit) { u.Static = true }
	surplus := func(u *Unit) { u.Surplus = true }
	member := func(minCount int32) unitOption {
		return func(u *Unit) { u.PodGroup, u.Running, u.Membership = "g", true, &QueueMembership{MinCount: minCount} }
	}
	for name, tc := range map[string]struct {
		queues    []fairshare.Queue
		units     [][]unitOption
		preemptor Preemptor
		want      []Guard
	}{
		"nothing": {units: [][]unitOption{{since(1)}}},
		"a static pod, of which nothing else is said": {
			units:     [][]unitOption{{static, since(1), tolerating(5, 9*minute)}},
			preemptor: Preemptor{Now: minute, MinRuntime: MinRuntime{Preempt: 2 * minute}},
			want:      []Guard{{Rule: RuleStaticPod}},
		},
		"a toleration, and a min-runtime": {
			units:     [][]unitOption{{since(1), tolerating(5, 9*minute)}},
			preemptor: Preemptor{Now: minute, MinRuntime: MinRuntime{Preempt: 2 * minute}},
			want:      []Guard{{Rule: RuleToleration, Until: 9 * minute, Below: &low}, {Rule: RulePreemptMinRuntime, Until: 2*minute + 1}},
		},
		"a toleration without an end":   {units: [][]unitOption{{tolerating(5, Forever)}}, want: []Guard{{Rule: RuleToleration, Below: &low}}},
		"a toleration that has ended":   {units: [][]unitOption{{tolerating(5, minute)}}, preemptor: Preemptor{Now: 2 * minute}},
		"a profile without tolerations": {units: [][]unitOption{{tolerating(5, Forever)}}, preemptor: Preemptor{IgnoresTolerations: true}},
		"a clock that has not begun": {
			units: [][]unitOption{{}}, preemptor: Preemptor{Now: minute, MinRuntime: MinRuntime{Preempt: minute}},
			want: []Guard{{Rule: RulePreemptMinRuntime, Until: 2 * minute}},
		},
		"reclaim counts in a queue only": {units: [][]unitOption{{since(1)}}, preemptor: Preemptor{MinRuntime: MinRuntime{Reclaim: minute}}},
		"the longest that any preemptor has to wait": {
			queues:    []fairshare.Queue{queue("top", reclaimAfter(3*minute)), queue("v", under("top"), preemptAfter(minute), reclaimAfter(0))},
			units:     [][]unitOption{{inQueue("v"), since(1)}},
			preemptor: Preemptor{Now: 2 * minute}, want: []Guard{{Rule: RulePreemptMinRuntime, Until: 3*minute + 1}},
		},
		"the leaf's own, where that is what counts": {
			queues:    []fairshare.Queue{queue("top", reclaimAfter(3*minute)), queue("v", under("top"), preemptAfter(minute), reclaimAfter(0))},
			units:     [][]unitOption{{inQueue("v"), since(1)}},
			preemptor: Preemptor{Now: 2 * minute, MinRuntime: MinRuntime{Resolve: ResolveQueue}},
		},
		"by the profile of the unit, and by what is asked with for work of none": {
			units:     [][]unitOption{{since(1), ofProfile(MinRuntime{Preempt: 3 * minute})}, {since(1)}},
			preemptor: Preemptor{Now: minute, MinRuntime: MinRuntime{Preempt: 2 * minute}},
			want:      []Guard{{Rule: RulePreemptMinRuntime, Until: 3*minute + 1}, {Unit: 1, Rule: RulePreemptMinRuntime, Until: 2*minute + 1}},
		},
		"the surplus of a gang goes first": {
			units:     [][]unitOption{{member(1), since(1)}, {member(1), since(1), surplus}},
			preemptor: Preemptor{Now: minute, MinRuntime: MinRuntime{Preempt: minute}},
			want:      []Guard{{Rule: RulePreemptMinRuntime, Until: minute + 1}},
		},
		"a surplus that does not run makes no member one too many": {
			units: [][]unitOption{
				{member(1), since(1)}, {member(1), since(1), surplus, func(u *Unit) { u.Running = false }},
			},
			preemptor: Preemptor{Now: minute, MinRuntime: MinRuntime{Preempt: minute}},
			want:      []Guard{{Rule: RulePreemptMinRuntime, Until: minute + 1}, {Unit: 1, Rule: RulePreemptMinRuntime, Until: minute + 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := clusterOf("gpu").node("n", 8)
			for i, opts := range tc.units {
				b.pod([]string{"v1", "v2"}[i], "n", 1, 1, opts...)
			}
			got := Guards(b.queues(tc.queues...).shared(&tc.preemptor), &tc.preemptor)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("protected (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGuardsHaveAll checks that every protection from one preemptor is also a guard. The guard must
// not end earlier.
func TestGuardsHaveAll(t *testing.T) {
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
		r, all := newPolicy(newView(s, p, Arithmetic{}), protections()).rules(), Guards(s, p)
		for u := range r.everyUnit {
			for _, rule := range protections() {
				v, ok := rule.protects(r, u)
				if !ok {
					continue
				}
				protected++
				if v.Rule == RuleReclaimMinRuntime {
					v.Rule = RulePreemptMinRuntime
				}
				if !slices.ContainsFunc(all, func(g Guard) bool {
					forGood := g.Until == 0 && g.Below == nil
					lasts := g.Until == 0 || v.Until != 0 && g.Until >= v.Until
					return g.Unit == int(u) && (forGood || g.Rule == v.Rule && lasts && (g.Below == nil || p.Priority < *g.Below))
				}) {
					t.Fatalf("%s is protected by %+v, and listed are %+v", s.Units[u].Name, v, all)
				}
			}
		}
	})
	if protected == 0 {
		t.Error("no unit was protected")
	}
}
