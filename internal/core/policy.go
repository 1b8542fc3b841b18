package core

import "iter"

// Rule is the name of a rule that allows the eviction of a unit, or protects it. Rules are part of
// the Decision's JSON and of the messages that users read.
type Rule string

const (
	// RuleLowerPriority: the unit's priority is lower than the preemptor's.
	RuleLowerPriority Rule = "LowerPriority"
	// RuleNotLowerPriority protects units whose priority is not lower than the preemptor's.
	RuleNotLowerPriority Rule = "NotLowerPriority"
	// RuleToleration protects units whose PriorityClass tolerates preemption by the preemptor's
	// priority.
	RuleToleration Rule = "PreemptionToleration"
	// RuleClassNotFound protects units whose PriorityClass does not exist, so their toleration is
	// unknown.
	RuleClassNotFound Rule = "PriorityClassNotFound"
	// RuleStaleGang: the unit is a gang that has had fewer members than it needs for too long. Work
	// of equal priority may evict it as a whole.
	RuleStaleGang Rule = "StaleGang"
	// RuleMoreImportantGang protects a stale gang from a less important gang that also lacks
	// members.
	RuleMoreImportantGang Rule = "MoreImportantGang"
	// RuleReclaim: the unit's queue uses more than its fair share, and the preemptor's queue does
	// not.
	RuleReclaim Rule = "Reclaim"
	// RuleFairShare protects units of other queues that use no more than their fair share.
	RuleFairShare Rule = "FairShare"
	// RuleOverShare protects units of other queues from a preemptor whose own queue would exceed
	// its fair share.
	RuleOverShare Rule = "PreemptorOverFairShare"
	// RuleQuota protects units whose eviction would leave their queue below its quota.
	RuleQuota Rule = "Quota"
	// RuleLimit bounds the usage of a queue.
	RuleLimit Rule = "QueueLimit"
	// RulePreemptMinRuntime protects units that have not run long enough from preemption by
	// priority.
	RulePreemptMinRuntime Rule = "PreemptMinRuntime"
	// RuleReclaimMinRuntime protects units that have not run long enough from reclaim.
	RuleReclaimMinRuntime Rule = "ReclaimMinRuntime"
	// RuleStaticPod protects static pods. The kubelet of their node runs them without the API
	// server, so deleting them in the API has no effect.
	RuleStaticPod Rule = "StaticPod"
	// RuleDeletionRefused protects units with a pod whose deletion the API server recently refused.
	RuleDeletionRefused Rule = "DeletionRefused"
	// RuleOwnGang protects the members of the preemptor's own PodGroup.
	RuleOwnGang Rule = "OwnGang"
	// RuleNeverPreempts protects every unit from a preemptor with preemptionPolicy Never, or one
	// that backs off from preempting.
	RuleNeverPreempts Rule = "NeverPreempts"
	// RuleUnknownQueue protects every unit from a preemptor that names a queue without work of its
	// own, because its entitlement is unknown.
	RuleUnknownQueue Rule = "UnknownQueue"
)

// MayBeLifted reports whether a protection by the rule may end before its time, or although it has
// no end. An administrator may change the PriorityClass, or the API server may stop refusing
// deletions.
func (r Rule) MayBeLifted() bool {
	return r == RuleToleration || r == RuleClassNotFound || r == RuleDeletionRefused
}

// Verdict is the answer whether one preemptor may evict one unit.
type Verdict struct {
	// Eligible is true if the unit may be evicted.
	Eligible bool
	// Rule is the rule that allows the eviction of the unit, or protects it.
	Rule Rule
	// Until is the end of the protection, in nanoseconds since 1970; 0 if the protection has no
	// fixed end.
	Until int64
	// Queue is the queue with the setting that protects the unit; empty if no queue does.
	Queue string
}

// passes reports whether the protection ends by itself.
func (v Verdict) passes() bool { return !v.Eligible && v.Until != 0 }

// policy determines the units that one preemptor may evict. There are two policies. priorityPolicy
// decides by priority alone. queuePolicy also uses the shares of queues, and min-runtimes that
// bound the losses of gangs. Both apply the same protections, in judge.
type policy interface {
	// rules returns the ruling that the protections read.
	rules() *ruling
	// entitlement returns whether the preemptor is entitled to a unit, before any protection is
	// checked.
	entitlement(u int32) Verdict
	// fits reports whether units may be evicted together. If not, it returns the bound that they
	// would exceed.
	fits(units []int32) (bound, bool)
	// part returns those units of a node that may be evicted together, as positions in ascending
	// order. It prefers the first of the given positions. It returns all of them if bounded is
	// false.
	part(col *nodeColumn, positions []int32) []int32
	bounded() bool

	// search looks for the cheapest set of victims that the policy allows.
	search(sr *search) Decision
	// everything returns the search over all potential victims. It uses the memory of mem.
	everything(sr *search, mem *scratch) *search

	// potential returns the number of potential victims. potentialOn lists those on a node, least
	// important first, and roomOn returns the sum of their requests. Both results are valid until
	// the next call.
	potential() int
	potentialOn(n int32) []int32
	roomOn(n int32) []int64
	// protected counts the units that are no potential victims, by rule. named lists the units that
	// a Decision names. passing lists the units whose protection ends at a known time.
	protected() map[Rule]int
	named() []int32
	passing() []timed
}

// protection is a rule that protects units from preemptors that are entitled to them. Protections
// apply under both policies, to pods and gangs. They are stateless: the ruling has all their
// inputs.
type protection interface {
	// protects returns the verdict with the rule and its end, or false if the rule does not protect
	// the unit.
	protects(r *ruling, u int32) (Verdict, bool)
}

// graded is a protection against low priorities only.
type graded interface {
	protection
	// below returns the lowest priority of preemptors that may evict the unit in spite of the rule.
	below(u *Unit) int32
}

// narrow is a protection that can list the few units that it may protect. All other protections
// must be asked about every unit.
type narrow interface {
	protection
	// about lists all units that the rule protects, in any order. The list may include units that
	// it does not protect.
	about(r *ruling) iter.Seq[int32]
}

// leafwise is a protection that can exclude a whole leaf queue, because it protects none of the
// queue's units.
type leafwise interface {
	protection
	// ignores is true only if the rule protects no unit of the leaf queue. leaf -1 means the units
	// in no queue; if queues do not count, it means all units.
	ignores(r *ruling, leaf int32) bool
}

// protections returns all protections. If several protect a unit, the last to end is reported.
// Among equals, it is the first in this list.
func protections() []protection {
	return []protection{staticPods{}, refusedPods{}, tolerations{}, minRuntimes{}, staleGangs{}}
}

// timed is a unit whose protection ends at a known time, with the verdict.
type timed struct {
	unit    int32
	verdict Verdict
}

// judge returns the verdict on one unit: whether it may be evicted, the rule, and the end of a
// protection. See KEP-5710, "Preemption algorithm", step 1, and the min-runtime document. Every
// search and every report uses it.
func judge(by policy, u int32) Verdict {
	r := by.rules()
	r.meter.add(1)
	if rule, forbidden := r.forbidden(); forbidden {
		return Verdict{Rule: rule}
	}
	if r.ownGang(u) {
		return Verdict{Rule: RuleOwnGang}
	}
	v := by.entitlement(u)
	if !v.Eligible {
		return v
	}
	for _, rule := range r.protections {
		if protected, ok := rule.protects(r, u); ok && (v.Eligible || endsLater(protected, v)) {
			v = protected
		}
	}
	return v
}

// endsLater reports whether protection a ends later than b.
func endsLater(a, b Verdict) bool { return b.Until != 0 && (a.Until == 0 || a.Until > b.Until) }

// newPolicy returns the policy for one preemptor. It judges no unit yet.
func newPolicy(v *problem, protections []protection) policy {
	r := newRuling(v, protections)
	if r.bounded() {
		return newQueuePolicy(v, r)
	}
	return &priorityPolicy{ruling: r, v: v}
}
