package scheduler

import (
	"fmt"
	"time"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Guard is what keeps a unit that runs from being taken by any preemptor.
type Guard struct {
	core.UnitRef
	// Rule is RuleStaticPod, RuleToleration or, for the longest of its min-runtimes, RulePreemptMinRuntime.
	Rule core.Rule
	// Until is when it ends; zero where it has no end.
	Until time.Time
	// Below is the lowest priority that a toleration does not protect from.
	Below int32
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
	now := p.hub.clock.Now()
	otherwise := queue.MinRuntimes{
		Preempt: p.args.PreemptMinRuntime.Duration, Reclaim: p.args.ReclaimMinRuntime.Duration,
		FromLeaf: *p.args.ReclaimResolveMethod == configv1alpha1.ResolveQueue,
	}
	var out []Guard
	for i := range v.Cluster.Units {
		u := &v.Cluster.Units[i]
		if len(u.Pods) == 0 {
			continue
		}
		g := Guard{UnitRef: core.UnitRef{Namespace: u.Namespace, Name: u.Name, UID: u.UID, Group: u.Group, Priority: u.Priority}, Pods: len(u.Pods)}
		if u.Membership != nil {
			g.Queue = u.Membership.Queue
		}
		if u.Static {
			g.Rule = core.RuleStaticPod
			out = append(out, g)
			continue
		}
		if t := u.Toleration; t != nil && *p.args.PreemptionToleration {
			if guard, lasts := tolerationOf(g, t, now); lasts {
				out = append(out, guard)
			}
		}
		runtime := p.hub.board.Protection(g.Queue, otherwise)
		// A clock that has not begun is taken to begin with the decision.
		since := now
		if u.Since != 0 {
			since = time.Unix(0, u.Since)
		}
		if until := since.Add(runtime); runtime > 0 && !u.Surplus && !now.After(until) {
			g.Rule, g.Until = core.RulePreemptMinRuntime, until
			out = append(out, g)
		}
	}
	return out, nil
}

// tolerationOf is a guard by a toleration; false where that has ended.
func tolerationOf(g Guard, t *core.Toleration, now time.Time) (Guard, bool) {
	g.Rule, g.Below = core.RuleToleration, t.Below
	if t.ClassNotFound {
		g.Rule = core.RuleClassNotFound
	}
	switch {
	case t.Lasts == core.Forever || t.Lasts == 0 && t.Until == core.Forever:
	case t.Lasts > 0:
		g.Until = now.Add(time.Duration(t.Lasts))
	default:
		g.Until = time.Unix(0, t.Until)
	}
	return g, g.Until.IsZero() || !now.After(g.Until)
}
