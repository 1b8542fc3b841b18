package core

import "math"

// Guard is the protection of one unit by one rule, from all preemptors or from preemptors with a
// low priority.
type Guard struct {
	// Unit is the index of the unit in Snapshot.Units.
	Unit int
	// Rule is the rule that protects the unit. RulePreemptMinRuntime here stands for the longest
	// min-runtime that applies to the unit.
	Rule Rule
	// Until is the end of the protection, in nanoseconds since 1970; 0 if the protection has no
	// fixed end.
	Until int64
	// Below is the lowest priority of preemptors that may evict the unit despite the rule; nil if
	// the rule protects the unit from all preemptors.
	Below *int32
}

// Guards lists, for each unit, the rules that protect it from at least some preemptors. In p it
// reads only the fields that all preemptors of a profile share: the time, and the settings of
// tolerations and min-runtimes.
func Guards(s *Snapshot, p *Preemptor) []Guard { return guards(s, p, protections()) }

// guards is like Guards, but uses the given protections.
func guards(s *Snapshot, p *Preemptor, protections []protection) []Guard {
	// Judge for a preemptor of the lowest priority, without a name, group or queue. If a rule
	// protects a unit from some preemptor, the rule also protects the unit from this preemptor.
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
				// This rule protects the unit from all preemptors, so further rules add nothing.
				break
			}
		}
	}
	return out
}
