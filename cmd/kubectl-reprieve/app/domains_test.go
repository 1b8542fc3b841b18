package app

import (
	"strings"
	"testing"

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
