package core

import "math"

// Guard is a protection of a unit, whichever preemptor there may be.
type Guard struct {
	// Unit is the unit's place in Snapshot.Units.
	Unit int
	// Rule is the rule; RulePreemptMinRuntime stands for the longest of the unit's min-runtimes.
	Rule Rule
	// Until is the last moment of it, in nanoseconds since 1970; 0 where it has no end of its own.
	Until int64
	// Below is the lowest priority of preemptors that it does not hold against; nil where it holds against all.
	Below *int32
}

// Guards lists what protects units from some preemptor at least, unit by unit. Of p it goes by what holds for any preemptor: the
// time, and what the profile says of tolerations and min-runtimes.
func Guards(s *Snapshot, p *Preemptor) []Guard { return guards(s, p, protections()) }

// guards is Guards with some protections in force.
func guards(s *Snapshot, p *Preemptor, protections []protection) []Guard {
	// A preemptor of no name, group or queue. What protects from any priority protects from the lowest.
	anyone := *p
	anyone.Namespace, anyone.Name, anyone.UID, anyone.PodGroup, anyone.Queue = "", "", "", "", ""
	anyone.Gang, anyone.Never, anyone.BacksOff, anyone.Priority = false, false, false, math.MinInt32
	anyone.MinCount, anyone.Classes, anyone.Nominated = 0, nil, nil
	v := newView(s, &anyone, Arithmetic{})
	r := newRuling(v, protections)
	r.anyone = true
	r.roster, _ = v.inQueues()
	r.leafOf = r.roster.leaves
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
				// The others say nothing more.
				break
			}
		}
	}
	return out
}
