package core

// Rule names why a unit may be taken, or what protects it. Rules are part of the Decision's JSON and of the
// messages that users read.
type Rule string

const (
	// RuleLowerPriority: the unit's priority is lower than the preemptor's.
	RuleLowerPriority Rule = "LowerPriority"
	// RuleNotLowerPriority protects units whose priority is not lower than the preemptor's.
	RuleNotLowerPriority Rule = "NotLowerPriority"
	// RuleToleration protects units whose PriorityClass tolerates preemption by the preemptor's priority.
	RuleToleration Rule = "PreemptionToleration"
	// RuleReclaim: the unit's queue has more than its fair share, and the preemptor's does not.
	RuleReclaim Rule = "Reclaim"
	// RuleFairShare protects units of other queues that have no more than their fair share.
	RuleFairShare Rule = "FairShare"
	// RuleOverShare protects units of other queues from a preemptor whose own would have more than its fair share.
	RuleOverShare Rule = "PreemptorOverFairShare"
	// RuleQuota protects units without which their queue would have less than its quota.
	RuleQuota Rule = "Quota"
	// RulePreemptMinRuntime protects units that have not run long enough from preemption by priority.
	RulePreemptMinRuntime Rule = "PreemptMinRuntime"
	// RuleReclaimMinRuntime protects units that have not run long enough from reclaim.
	RuleReclaimMinRuntime Rule = "ReclaimMinRuntime"
	// RuleOwnGang protects the members of the preemptor's own PodGroup.
	RuleOwnGang Rule = "OwnGang"
)

// Verdict says of one unit whether one preemptor may take it.
type Verdict struct {
	// Eligible is true where the unit may be taken.
	Eligible bool
	// Rule is the rule that allows it, or the one that protects the unit.
	Rule Rule
	// Until is the last moment of the protection, in nanoseconds since 1970; 0 where it has no end of its own.
	Until int64
	// Queue is the queue that the rule is a setting of, where it is one's.
	Queue string
}

// passes reports whether the protection ends by itself.
func (v Verdict) passes() bool { return !v.Eligible && v.Until != 0 }

// Judge applies the policy, as far as priority settles it, of "who may be taken" to one unit (KEP-5710, "Preemption algorithm", step 1).
func Judge(p *Preemptor, u *Unit) Verdict {
	switch {
	case p.PodGroup != "" && u.PodGroup == p.PodGroup:
		return Verdict{Rule: RuleOwnGang}
	case u.Priority >= p.Priority:
		return Verdict{Rule: RuleNotLowerPriority}
	}
	if v, ok := tolerates(p, u); ok {
		return v
	}
	return Verdict{Eligible: true, Rule: RuleLowerPriority}
}

// tolerates reports whether a unit tolerates the preemptor's priority for now (proposal "Preemption Toleration").
func tolerates(p *Preemptor, u *Unit) (Verdict, bool) {
	t := u.Toleration
	if t == nil || p.IgnoresTolerations || p.Priority >= t.Below || p.Now > t.Until {
		return Verdict{}, false
	}
	v := Verdict{Rule: RuleToleration, Until: t.Until}
	if v.Until == Forever {
		v.Until = 0
	}
	return v, true
}

// suspects are the potential victims of one preemptor (KEP-5710, "Identify the list of all potential victims"):
// on every node the units of lower priority, which are a prefix of its column, but for the spared ones.
type suspects struct {
	// below is the lowest priority that is safe.
	below int64
	// spared are units of lower priority that a rule protects nonetheless, or that a search leaves alone.
	spared map[int32]Rule
	// count is how many units may be taken.
	count int
	// protected counts all others by rule.
	protected map[Rule]int
}

// potentialVictims applies the policy to the whole cluster without looking at each unit: only the preemptor's
// own gang and units with a protection of their own are out of the order of priorities.
func potentialVictims(s *Snapshot, c *columns, p *Preemptor) suspects {
	sus := suspects{below: int64(p.Priority), protected: make(map[Rule]int)}
	for priority, n := range c.perPriority {
		if priority < p.Priority {
			sus.count += n
		} else if n > 0 {
			sus.protected[RuleNotLowerPriority] += n
		}
	}
	for _, u := range c.ofPodGroup(s, p.PodGroup) {
		sus.judge(s, p, u)
	}
	for u := range c.tolerant {
		sus.judge(s, p, u)
	}
	for rule, n := range sus.protected {
		if n == 0 {
			delete(sus.protected, rule)
		}
	}
	return sus
}

// judge takes a unit out of the order of priorities where the policy says so.
func (sus *suspects) judge(s *Snapshot, p *Preemptor, u int32) {
	v := Judge(p, &s.Units[u])
	if _, done := sus.spared[u]; v.Eligible || done {
		return
	}
	if s.Units[u].Priority < p.Priority {
		sus.spare(u, v.Rule)
		sus.protected[v.Rule]++
	} else if v.Rule != RuleNotLowerPriority {
		sus.protected[RuleNotLowerPriority]--
		sus.protected[v.Rule]++
	}
}

// spare takes a unit of lower priority off the potential victims.
func (sus *suspects) spare(u int32, rule Rule) {
	if sus.spared == nil {
		sus.spared = make(map[int32]Rule)
	}
	sus.spared[u] = rule
	sus.count--
}

// ofPodGroup lists the units that are, or belong to, a PodGroup.
func (c *columns) ofPodGroup(s *Snapshot, uid string) []int32 {
	if uid == "" {
		return nil
	}
	if c.groups != nil {
		return c.groups[uid]
	}
	var units []int32
	for u := range s.Units {
		if s.Units[u].PodGroup == uid {
			units = append(units, int32(u))
		}
	}
	return units
}
