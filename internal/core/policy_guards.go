package core

import "math"

// Guard is a protection of a unit against some preemptors or all.
type Guard struct {
	// Unit is the unit's place in Snapshot.Units.
	Unit int
	// Rule is the rule. RulePreemptMinRuntime stands for the longest of the unit's min-runtimes.
	Rule Rule
	// Until is the last moment of the protection, in nanoseconds since 1970; 0 if it has no end of
	// its own.
	Until int64
	// Below is the lowest priority of preemptors that the rule does not protect from; nil if it
	// protects from all.
	Below *int32
}

// Guards lists, unit by unit, the protections against at least some preemptor. It reads only the
// fields of p that hold for any preemptor: the time, and the profile's settings of tolerations and
// min-runtimes.
func Guards(s *Snapshot, p *Preemptor) []Guard { return guards(s, p, protections()) }

// guards is Guards with the given protections.
func guards(s *Snapshot, p *Preemptor, protections []protection) []Guard {
	// The preemptor has no name, group or queue. A rule that protects from any priority protects
	// from the lowest.
	anyone := *p
	anyone.Namespace, anyone.Name, anyone.UID, anyone.PodGroup, anyone.Queue = "", "", "", "", ""
	anyone.Gang, anyone.Never, anyone.BacksOff, anyone.Priority = false, false, false, math.MinInt32
	anyone.MinCount, anyone.Classes, anyone.Nominated = 0, nil, nil
	v := newView(s, &anyone, Arithmetic{})
	r := newRuling(v, protections)
	r.anyone = true
	r.index, _ = v.inQueues()
	r.leafOf = r.index.leaves
	var out []Guard
	for u := range r.everyUnit {
		for _, rule := range protections {
			verdict, protected := rule.protects(r, u)
			if !protected {
				continue
			}
			g := Guard{Unit: int(u), Rule: verdict.Rule, Until: verdict.Until}
			if rule, ok := rule.(graded); ok {
				below := rule.below(&s.Units[u])
				g.Below = &below
			}
			out = append(out, g)
			if g.Until == 0 && g.Below == nil {
				// Further rules add nothing.
				break
			}
		}
	}
	return out
}
