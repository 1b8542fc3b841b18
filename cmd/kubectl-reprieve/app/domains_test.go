package app

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// TestDomainsAreShown checks that why, when and plan print the topology domains that a decision
// compared.
func TestDomainsAreShown(t *testing.T) {
	t.Parallel()
	step := whatif.Step{Outcome: core.Infeasible, Message: "no room", DomainNotes: []string{"rack=a: room for 1 of 2 now"}}
	a := &asking{}
	for name, c := range map[string]struct {
		show func(to *strings.Builder)
		want string
	}{
		"why": {
			func(to *strings.Builder) { showDecision(to, &whyAnswer{Decision: &step}, false) },
			"\nDomain: rack=a: room for 1 of 2 now.\n",
		},
		"when": {
			func(to *strings.Builder) {
				a.showWhen(to, &whenAnswer{Subject: "g", Decision: &step, Bounds: &whatif.Bounds{}})
			},
			"\nDomain: rack=a: room for 1 of 2 now.\n",
		},
		"plan": {
			func(to *strings.Builder) {
				a.showSteps(to, &whatif.Result{Kind: "PodGroup", Name: "g", Steps: []whatif.Step{step}}, owners{}, false)
			},
			"\n  Domain rack=a: room for 1 of 2 now\n",
		},
	} {
		to := &strings.Builder{}
		c.show(to)
		if !strings.Contains(to.String(), c.want) {
			t.Errorf("%s shows:\n%swant the line %q", name, to, c.want)
		}
	}
}

// TestBoundsByDomain checks the lines of the command when for single topology domains.
func TestBoundsByDomain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)
	step := whatif.Step{Outcome: core.Infeasible, Message: "no room"}
	bounds := whatif.Bounds{
		AtTheLatest: &at, Then: "pod x ends", In: []whatif.Domain{{Key: "rack", Name: "z/1"}, {Key: "zone", Name: "z"}},
		Levels: []whatif.LevelBounds{{Key: "rack", Unlisted: 2, Domains: []whatif.DomainBounds{
			{Name: "z/1", AtTheLatest: &at, Then: "pod x ends"},
			{Name: "2", NotBefore: &at, BecauseOf: "MinRuntime", AtTheLatest: &at, Then: "pod y ends"},
			{Name: "3", Lacks: &whatif.DomainRoom{
				Needed: 4, Room: 1, AfterPreemption: 2, InTheWay: []core.RuleCount{{Rule: core.RuleNotLowerPriority, Units: 2}}, Endless: 1, Unread: 1,
			}},
			{Name: "4", Lacks: &whatif.DomainRoom{Needed: 4, Empty: ptr.To(3)}},
		}}},
	}
	to := &strings.Builder{}
	(&asking{}).showWhen(to, &whenAnswer{Subject: "g", Decision: &step, Bounds: &bounds})
	const want = `g: no room
At the latest 2026-03-01T13:00:00Z in rack=z/1, zone=z: pod x ends.
Domain: rack=z/1: room at the latest 2026-03-01T13:00:00Z: pod x ends.
Domain: rack=2: room not before 2026-03-01T13:00:00Z (MinRuntime), at the latest 2026-03-01T13:00:00Z: pod y ends.
Domain: rack=3: unknown: room for 1 of 4 after all declared ends, for 2 after preemption; in the way: 2 units protected by NotLowerPriority; 1 of the pods that run there declare no end; the Jobs of 1 pod that run there are unknown, and so are their ends.
Domain: rack=4: never with its nodes as they are: room for 3 of 4 even without other pods.
Domain: rack: 2 more domains not listed.
`
	if got := to.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
