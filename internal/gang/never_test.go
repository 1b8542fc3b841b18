package gang

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func TestFlawOfNever(t *testing.T) {
	t.Parallel()
	never := func(g *Group) { g.Never = true }
	for name, tc := range map[string]struct {
		nodes      []node // the PodGroup a is judged
		wantReason string
		wantNamed  string
	}{
		"another mode":         {nodes: []node{{name: "a", need: 1}}},
		"no tree":              {nodes: []node{{name: "a", need: 1, change: never}}, wantReason: v1alpha1.ReasonNoParent, wantNamed: "PodGroup ml/a"},
		"the basic policy":     {nodes: []node{{name: "R"}, {name: "a", parent: "R", change: never}}, wantReason: v1alpha1.ReasonBasicPolicy},
		"below Single":         {nodes: []node{{name: "R", need: 1}, {name: "a", parent: "R", need: 1, change: never}}},
		"below basic":          {nodes: []node{{name: "R"}, {name: "a", parent: "R", need: 1, change: never}}},
		"below All":            {nodes: []node{{name: "R", need: 1, whole: true}, {name: "a", parent: "R", need: 1, change: never}}, wantReason: v1alpha1.ReasonParentGoesWhole, wantNamed: "CompositePodGroup ml/R"},
		"below All, far above": {nodes: []node{{name: "R", need: 1, whole: true}, {name: "M", parent: "R", need: 1}, {name: "a", parent: "M", need: 1, change: never}}, wantReason: v1alpha1.ReasonParentGoesWhole, wantNamed: "CompositePodGroup ml/R"},
		"All beside it":        {nodes: []node{{name: "R", need: 1}, {name: "M", parent: "R", need: 1, whole: true}, {name: "a", parent: "R", need: 1, change: never}}},
		"a missing parent":     {nodes: []node{{name: "a", parent: "R", need: 1, change: never}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trees, store, _ := forest(tc.nodes...)
			g, _ := store.Group(keyNamed("a"))
			got := trees.FlawOfNever(g)
			if got.Reason != tc.wantReason || !strings.Contains(got.Message, tc.wantNamed) {
				t.Errorf("FlawOfNever() = %+v, want the reason %q and %q", got, tc.wantReason, tc.wantNamed)
			}
			if unit := trees.UnitOf(g.Key); tc.wantReason == v1alpha1.ReasonParentGoesWhole && unit != keyNamed("R") {
				t.Errorf("The unit is %s, want R", unit)
			}
		})
	}
	if got := (*Trees)(nil).FlawOfNever(&Group{Never: true, MinCount: 1}); got.Reason != v1alpha1.ReasonNoParent {
		t.Errorf("Without trees: %+v", got)
	}
}

func TestReportNever(t *testing.T) {
	t.Parallel()
	bound := Bound{Class: "c", Exists: true, Seconds: 60, Below: 100}
	tolerates := func(seconds int64) Bound {
		out := bound
		out.Tolerates = seconds
		return out
	}
	for name, tc := range map[string]struct {
		flaw       Verdict
		bounds     []Bound
		unsealed   bool
		wantReason string
		wantNamed  string
	}{
		"it protects":        {bounds: []Bound{bound}, wantReason: v1alpha1.ReasonNeverBounded, wantNamed: "below 100 cannot preempt the members in the first 60 seconds"},
		"a flaw":             {bounds: []Bound{bound}, flaw: Verdict{Reason: v1alpha1.ReasonNoParent}, wantReason: v1alpha1.ReasonNoParent},
		"no class":           {bounds: []Bound{{}}, wantReason: v1alpha1.ReasonNoBound, wantNamed: "reprieve.dev/never-seconds"},
		"a class without it": {bounds: []Bound{{Class: "c", Exists: true}}, wantReason: v1alpha1.ReasonNoBound, wantNamed: `PriorityClass "c" has no valid annotation reprieve.dev/never-seconds`},
		"no such class":      {bounds: []Bound{{Class: "c"}}, wantReason: v1alpha1.ReasonPriorityClassNotFound, wantNamed: `"c" does not exist`},
		"placed before":      {bounds: []Bound{bound}, unsealed: true, wantReason: v1alpha1.ReasonPlacedWithoutNever},
		"placed with a weaker class": {
			bounds:     []Bound{bound, {Class: "d", Exists: true, Seconds: 30, Below: 50}},
			wantReason: v1alpha1.ReasonNeverBounded, wantNamed: `below 50 cannot preempt the members in the first 30 seconds of the tree's run, by PriorityClass "d", which a member was placed with`,
		},
		"placed with a stronger class": {
			bounds:     []Bound{bound, {Class: "d", Exists: true, Seconds: 90, Below: 200}},
			wantReason: v1alpha1.ReasonNeverBounded, wantNamed: `below 100 cannot preempt the members in the first 60 seconds of the tree's run, by PriorityClass "c"`,
		},
		"placed with a class without it":   {bounds: []Bound{bound, {Class: "d", Exists: true}}, wantReason: v1alpha1.ReasonNoBound, wantNamed: `PriorityClass "d", which a member was placed with, has no valid annotation`},
		"placed with a class that is gone": {bounds: []Bound{bound, {Class: "d"}}, wantReason: v1alpha1.ReasonPriorityClassNotFound, wantNamed: `"d", which a member was placed with, does not exist`},
		"placed without a class":           {bounds: []Bound{bound, {}}, wantReason: v1alpha1.ReasonNoBound, wantNamed: "placed without a PriorityClass"},
		"a toleration without an end":      {bounds: []Bound{tolerates(-1)}, wantReason: v1alpha1.ReasonLongerToleration, wantNamed: `the preemption toleration of PriorityClass "c" protects the members from priorities below 100`},
		"a toleration of the same length":  {bounds: []Bound{tolerates(60)}, wantReason: v1alpha1.ReasonLongerToleration},
		"a shorter toleration":             {bounds: []Bound{tolerates(59)}, wantReason: v1alpha1.ReasonNeverBounded},
		"one of two without an end":        {bounds: []Bound{tolerates(-1), bound}, wantReason: v1alpha1.ReasonNeverBounded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &Group{Key: keyNamed("a"), Never: true, Priority: ptr.To[int32](1)}
			if got := g.ReportNever(tc.flaw, tc.bounds, !tc.unsealed); got.Reason != tc.wantReason || !strings.Contains(got.Message, tc.wantNamed) {
				t.Errorf("ReportNever() = %+v, want the reason %q and %q", got, tc.wantReason, tc.wantNamed)
			}
		})
	}
}
