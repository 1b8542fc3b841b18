package core

import (
	"iter"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// systemCritical is the lowest priority of preemptors that preempt by priority even if they are in
// a queue.
const systemCritical = workload.SystemCritical

// ruling has the inputs of all rules for one decision: the preemptor, the units, and their queues.
type ruling struct {
	s           *Snapshot
	p           *Preemptor
	c           *columns
	protections []protection
	// anyone is true if the preemptor is unknown. Each rule then returns the longest protection
	// from any preemptor.
	anyone bool
	// begin is the assumed start of the run time for units whose Since is 0, in nanoseconds since
	// 1970.
	begin int64
	// meter counts the steps of the decision; nil to count none.
	meter *meter
	// defaults are the min-runtimes that protect units if no queue has a setting. preempts is true
	// if one of these min-runtimes protects from preemption by priority.
	defaults minRuntimeIndex
	preempts bool

	// t is the tree of queues; nil without queues.
	t *fairshare.Tree
	// leaf is the preemptor's queue; -1 if it preempts only by priority. home is the queue whose
	// limits apply to the preemptor, even if leaf is -1. path has home and its ancestors, the root
	// last. onPath maps each queue in path to its position there, counted from 1. All other queues
	// have 0.
	leaf   int32
	home   int32
	path   []int32
	onPath []int32
	// index has the units of each queue. leafOf has the queue of each unit. They are nil with
	// priorityPolicy.
	index  *leafIndex
	leafOf []int32
	// ratio returns the ratio of a queue's usage to its fair share, for the resource with the
	// highest ratio. The preemptor's request has no effect on it. It is nil without a tree of
	// queues.
	ratio func(queue int32) float64
	// running caches the number of running members of each gang, by UID.
	running map[string]*Headcount
}

func newRuling(v *problem, protections []protection) *ruling {
	r := standingOf(v.s, v.p)
	r.c, r.protections, r.begin, r.meter = v.c, protections, v.begin, v.meter
	return r
}

// standingOf returns a ruling with only the preemptor's place in the tree of queues, and the
// min-runtimes.
func standingOf(s *Snapshot, p *Preemptor) *ruling {
	r := &ruling{s: s, p: p, leaf: leafOfPreemptor(s, p), home: -1, defaults: defaultsIn(s, p)}
	for m := range r.defaults {
		r.preempts = r.preempts || m.Preempt > 0
	}
	if q := s.Queues; q != nil && q.Tree != nil && q.Tree.Len() > 0 {
		r.t, r.home = q.Tree, q.Tree.LeafOf(p.Queue)
	}
	return r
}

// Bounded reports whether the choice of victims may depend on more than priority. This is so if the
// preemptor is in a queue, or if a unit may be inside a min-runtime.
func Bounded(s *Snapshot, p *Preemptor) bool { return standingOf(s, p).bounded() }

// bounded is Bounded for this ruling.
func (r *ruling) bounded() bool { return r.home >= 0 || r.inWindows() }

// inWindows reports whether a unit may be inside a min-runtime.
func (r *ruling) inWindows() bool {
	return r.anyone || r.leaf >= 0 || r.preempts || r.t.Protects()
}

// leafOfPreemptor returns the preemptor's leaf queue; -1 if it preempts by priority.
func leafOfPreemptor(s *Snapshot, p *Preemptor) int32 {
	if s.Queues == nil || p.Priority >= systemCritical {
		return -1
	}
	return s.Queues.Tree.LeafOf(p.Queue)
}

// forbidden reports whether the preemptor must not evict any unit, and returns the rule.
func (r *ruling) forbidden() (Rule, bool) {
	switch {
	case r.p.Never, r.p.BacksOff:
		return RuleNeverPreempts, true
	case r.p.Queue != "" && r.s.Queues != nil && r.s.Queues.Tree != nil && r.s.Queues.Tree.LeafOf(r.p.Queue) < 0:
		return RuleUnknownQueue, true
	default:
		return "", false
	}
}

// ownGang reports whether a unit belongs to the preemptor's own PodGroup.
func (r *ruling) ownGang(u int32) bool {
	return r.p.PodGroup != "" && r.s.Units[u].PodGroup == r.p.PodGroup
}

// byPriority returns the verdict on units of the given priority if only priority counts.
func (r *ruling) byPriority(priority int32) Verdict {
	if priority < r.p.Priority {
		return Verdict{Eligible: true, Rule: RuleLowerPriority}
	}
	return Verdict{Rule: RuleNotLowerPriority}
}

// entitledByPriority returns the verdict on one unit if only priority counts. The Priority of a
// stale gang is already lowered by one.
func (r *ruling) entitledByPriority(u int32) Verdict {
	unit := &r.s.Units[u]
	v := r.byPriority(unit.Priority)
	if v.Eligible && unit.Stale {
		v.Rule = RuleStaleGang
	}
	return v
}

// special lists the units that must be judged one by one in any leaf queue. They are the units of
// the preemptor's own gang, and the units that narrow protections list. It may list a unit twice.
func (r *ruling) special() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, u := range r.c.ofPodGroup(r.s, r.p.PodGroup) {
			if !yield(u) {
				return
			}
		}
		for _, rule := range r.protections {
			if n, ok := rule.(narrow); ok {
				for u := range n.about(r) {
					if !yield(u) {
						return
					}
				}
			}
		}
	}
}

func (r *ruling) everyUnit(yield func(int32) bool) {
	for u := range r.s.Units {
		if len(r.s.Units[u].Pods) > 0 && !yield(int32(u)) {
			return
		}
	}
}

// reclaims reports whether the preemptor may evict a unit only by reclaim. In that case, shares and
// quotas of queues decide, and not priorities.
func (r *ruling) reclaims(u int32) bool {
	if r.leaf < 0 {
		return false
	}
	leaf := r.leafOf[u]
	return leaf >= 0 && leaf != r.leaf && !r.yieldsStale(u)
}

// yieldsStale reports whether priority decides about a stale gang of another queue, as within one
// queue. This is so if the ratio of usage to fair share of the preemptor's queue does not exceed
// the ratio of the gang's queue. Without this rule, two gangs that lack members could wait for each
// other forever, because neither queue may reclaim from the other.
func (r *ruling) yieldsStale(u int32) bool {
	return r.s.Units[u].Stale && r.ratio != nil && r.ratio(r.leaf) <= r.ratio(r.leafOf[u])
}

// top returns the ancestor of a leaf queue, or the leaf itself, just below the lowest common
// ancestor with the preemptor's queue.
func (r *ruling) top(leaf int32) int32 {
	top := leaf
	for q := r.t.Parent(leaf); q >= 0 && r.onPath[q] == 0; q = r.t.Parent(q) {
		top = q
	}
	return top
}

// elastic reports whether the unit is one member of a gang whose members are evicted one by one.
func elastic(u *Unit) bool {
	return !u.Group && u.PodGroup != "" && u.Membership != nil && u.Membership.MinCount > 0
}

// runningOf returns the number of running members of a unit's gang, by role.
func (r *ruling) runningOf(u *Unit) *Headcount {
	h := r.running[u.PodGroup]
	if h != nil {
		return h
	}
	h = &Headcount{}
	for _, m := range r.c.ofPodGroup(r.s, u.PodGroup) {
		member, runs := &r.s.Units[m], 0
		if member.Running {
			runs = 1
		}
		h.Add(member.Role, runs)
	}
	if r.running == nil {
		r.running = make(map[string]*Headcount)
	}
	r.running[u.PodGroup] = h
	return h
}

// surplusOf returns the number of running members with the unit's role that its gang does not need.
func (r *ruling) surplusOf(u *Unit) int {
	return r.runningOf(u).Spare(int(u.Membership.MinCount), u.Role)
}

// ofPodGroup lists the units whose PodGroup has the given UID.
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

// judgedAlone reports whether each unit of a leaf queue must be judged, because a protection may
// apply; leaf -1 stands for the units in no queue. If not, the entitlement is the verdict on all
// units except the special ones.
func (r *ruling) judgedAlone(leaf int32) bool {
	return slices.ContainsFunc(r.protections, func(rule protection) bool {
		switch rule := rule.(type) {
		case leafwise:
			return !rule.ignores(r, leaf)
		case narrow:
			return false
		default:
			return true
		}
	})
}
