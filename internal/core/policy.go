package core

import "iter"

// Rule is the name of a rule that allows evicting a unit, or protects it. Rules are part of the
// Decision's JSON and of the messages that users read.
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
	// RuleReclaim: the unit's queue has more than its fair share, and the preemptor's does not.
	RuleReclaim Rule = "Reclaim"
	// RuleFairShare protects units of other queues that have no more than their fair share.
	RuleFairShare Rule = "FairShare"
	// RuleOverShare protects units of other queues from a preemptor whose own queue would exceed
	// its fair share.
	RuleOverShare Rule = "PreemptorOverFairShare"
	// RuleQuota protects units that keep their queue at its quota.
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

// MayBeLifted reports whether a protection by the rule may end before its time, or without one.
// An administrator may change the PriorityClass, or the cause of refused deletions may go away.
func (r Rule) MayBeLifted() bool {
	return r == RuleToleration || r == RuleClassNotFound || r == RuleDeletionRefused
}

// Verdict says whether one preemptor may evict one unit.
type Verdict struct {
	// Eligible is true if the unit may be evicted.
	Eligible bool
	// Rule is the rule that allows evicting the unit, or protects it.
	Rule Rule
	// Until is the last moment of the protection, in nanoseconds since 1970; 0 if it has no end of
	// its own.
	Until int64
	// Queue is the queue that has the setting, if a queue has.
	Queue string
}

// passes reports whether the protection ends by itself.
func (v Verdict) passes() bool { return !v.Eligible && v.Until != 0 }

// policy determines the units that one preemptor may evict. There are two policies. With
// priorityPolicy, priority alone orders units. With queuePolicy, queues have shares, or
// min-runtimes bound a gang's losses. Both apply the same protections, in judge.
type policy interface {
	// rules returns the ruling that the protections read.
	rules() *ruling
	// entitlement returns the verdict on a unit before any protection.
	entitlement(u int32) Verdict
	// fits reports whether units may be evicted together. If not, it returns the bound that they
	// exceed.
	fits(units []int32) (bound, bool)
	// part returns the units of a node that may be evicted together, from positions in its column,
	// in ascending order. It prefers the first ones, and returns all of them if bounded is false.
	part(col *nodeColumn, positions []int32) []int32
	bounded() bool

	// search looks for the cheapest victims within the policy's bounds.
	search(sr *search) Decision
	// everything returns the search over all potential victims, in borrowed memory.
	everything(sr *search, mem *scratch) *search

	// potential counts the potential victims. potentialOn lists those on a node, least important
	// first, and roomOn returns the room that they occupy. Both results are valid until the next
	// call.
	potential() int
	potentialOn(n int32) []int32
	roomOn(n int32) []int64
	// protected counts the other units by rule. named lists the units that a Decision names, and
	// passing the units that are protected for a time only.
	protected() map[Rule]int
	named() []int32
	passing() []timed
}

// protection is a rule that protects a unit from a preemptor that is entitled to it. Protections
// apply under every policy, for pods and gangs. They are stateless: all their inputs are in the
// ruling.
type protection interface {
	// protects returns the verdict with the rule and its end, or false if the rule does not protect
	// the unit.
	protects(r *ruling, u int32) (Verdict, bool)
}

// graded is a protection against low priorities only.
type graded interface {
	protection
	// below returns the lowest priority of preemptors that the rule does not protect the unit from.
	below(u *Unit) int32
}

// narrow is a protection that can list the few units that it may protect. Other protections are
// asked about every unit.
type narrow interface {
	protection
	// about lists at least the units that the rule protects, in any order.
	about(r *ruling) iter.Seq[int32]
}

// leafwise is a protection that may know that no unit of a whole leaf queue is protected.
type leafwise interface {
	protection
	// ignores is true only if the rule protects no unit of the leaf. -1 stands for the units in no
	// queue, and for all units if queues do not count.
	ignores(r *ruling, leaf int32) bool
}

// protections returns all protections. If several protect a unit, the last to end is reported, and
// the first of equals.
func protections() []protection {
	return []protection{staticPods{}, refusedPods{}, tolerations{}, minRuntimes{}, staleGangs{}}
}

// timed is a unit with the verdict that protects it for a time.
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

// newPolicy returns the policy for one preemptor, before it has judged any unit.
func newPolicy(v *problem, protections []protection) policy {
	r := newRuling(v, protections)
	if r.bounded() {
		return newQueuePolicy(v, r)
	}
	return &priorityPolicy{ruling: r, v: v}
}
