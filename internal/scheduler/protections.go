package scheduler

import (
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Guard is what keeps a unit that runs from being taken by some preemptor at least.
type Guard struct {
	core.UnitRef
	// Rule is the rule; RulePreemptMinRuntime stands for the longest of the unit's min-runtimes.
	Rule core.Rule
	// Until is when it ends; zero where it has no end.
	Until time.Time
	// Below is the lowest priority that it does not protect from; nil where it protects from all.
	Below *int32
	// Queue is the leaf queue of the unit, or "".
	Queue string
	// Pods is how many pods the unit has.
	Pods int
}

// Guards are the protections of all units that run, as decisions of this profile know them. Like [Plugin.Preview] it goes by the
// framework's snapshot, and runs only where no cycle does.
func (p *Plugin) Guards() ([]Guard, error) {
	v, err := p.look(&preemptor{})
	if err != nil {
		return nil, fmt.Errorf("look at what runs: %w", err)
	}
	var out []Guard
	for _, of := range core.Guards(v.Cluster, p.input(&preemptor{}, v, nil)) {
		u := &v.Cluster.Units[of.Unit]
		g := Guard{
			UnitRef: core.UnitRef{Namespace: u.Namespace, Name: u.Name, UID: u.UID, Group: u.Group, Priority: u.Priority},
			Rule:    of.Rule, Below: of.Below, Pods: len(u.Pods),
		}
		if of.Until != 0 {
			g.Until = time.Unix(0, of.Until)
		}
		if u.Membership != nil {
			g.Queue = u.Membership.Queue
		}
		out = append(out, g)
	}
	return out, nil
}
