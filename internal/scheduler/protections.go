package scheduler

import (
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Guard describes a rule that protects a running unit from at least one possible preemptor.
type Guard struct {
	core.UnitRef
	// Rule is the name of the rule. RulePreemptMinRuntime stands for the longest min-runtime of the
	// unit.
	Rule core.Rule
	// Until is the end of the protection; zero for a protection without an end.
	Until time.Time
	// Below is the lowest priority of preemptors that may evict the unit despite the rule; nil if
	// the rule protects from all preemptors.
	Below *int32
	// Queue is the leaf queue of the unit; "" for none.
	Queue string
	// Pods is the number of pods in the unit.
	Pods int
}

// Guards returns the protections of all running units, by the rules of this profile. It reads the
// framework's snapshot and must not run at the same time as a scheduling cycle.
func (p *Plugin) Guards() ([]Guard, error) {
	v, err := p.newView(&preemptor{})
	if err != nil {
		return nil, fmt.Errorf("read the running units: %w", err)
	}
	var out []Guard
	for _, of := range core.Guards(v.Cluster, p.input(&preemptor{}, v, nil)) {
		u := &v.Cluster.Units[of.Unit]
		g := Guard{
			UnitRef: core.UnitRef{Namespace: u.Namespace, Name: u.Name, UID: u.UID, Group: u.Group, Priority: u.Priority, RaisedBy: u.RaisedBy},
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
