package core

import "iter"

// Rule is the name of a rule that allows the eviction of a unit, or that protects the unit. Rules
// are part of a Decision's JSON and of messages.
type Rule string

const (
	// RuleLowerPriority: the unit's priority is lower than the preemptor's.
	RuleLowerPriority Rule = "LowerPriority"
	// RuleNotLowerPriority protects units whose priority is not lower than the preemptor's.
	RuleNotLowerPriority Rule = "NotLowerPriority"
	// RuleToleration protects units whose PriorityClass tolerates preemption by the preemptor's
	// priority.
	RuleToleration Rule = "PreemptionToleration"
	// RuleNever protects members of a group of a tree that has disruption mode Never.
	RuleNever Rule = "DisruptionModeNever"
	// RuleClassNotFound protects units whose PriorityClass does not exist, so their toleration is
	// unknown.
	RuleClassNotFound Rule = "PriorityClassNotFound"
	// RuleStaleGang: the unit is a gang that has lacked members for too long. Work of equal
	// priority may evict the whole gang.
	RuleStaleGang Rule = "StaleGang"
	// RuleMoreImportantGang protects a stale gang from a less important gang that also lacks
	// members.
	RuleMoreImportantGang Rule = "MoreImportantGang"
	// RuleReclaim: the preemptor's queue may reclaim the unit, because the unit's queue uses more
	// than its fair share or its quota.
	RuleReclaim Rule = "Reclaim"
	// RuleFairShare protects units of other queues that use no more than their fair share.
	RuleFairShare Rule = "FairShare"
	// RuleOverShare protects units of other queues from a preemptor whose own queue would exceed
	// its fair share.
	RuleOverShare Rule = "PreemptorOverFairShare"
	// RuleQuota protects units if their eviction would leave their queue below its quota.
	RuleQuota Rule = "Quota"
	// RuleLimit blocks a set of victims if the preemptor's queue, or an ancestor, would exceed its
	// limit even after their eviction.
	RuleLimit Rule = "QueueLimit"
	// RulePreemptMinRuntime protects units from preemption by priority until they have run for
	// their min-runtime.
	RulePreemptMinRuntime Rule = "PreemptMinRuntime"
	// RuleReclaimMinRuntime protects units from reclaim until they have run for their min-runtime.
	RuleReclaimMinRuntime Rule = "ReclaimMinRuntime"
	// RuleStaticPod protects static pods. The kubelet of a node runs them from local files, so
	// deleting them in the API has no effect.
	RuleStaticPod Rule = "StaticPod"
	// RuleDeletionRefused protects units with a pod whose deletion the API server recently
	// rejected.
	RuleDeletionRefused Rule = "DeletionRefused"
	// RuleOwnGang protects the members of the preemptor's own PodGroup.
	RuleOwnGang Rule = "OwnGang"
	// RuleNeverPreempts protects every unit from a preemptor that must not preempt now. Its
	// preemptionPolicy is Never, or it backs off after a failed eviction.
	RuleNeverPreempts Rule = "NeverPreempts"
	// RuleUnknownQueue protects every unit from a preemptor whose queue is not a leaf queue of the
	// tree. The fair share of such a queue is unknown.
	RuleUnknownQueue Rule = "UnknownQueue"
)

// MayBeLifted reports whether a protection by the rule may end earlier than its Until, or end
// although it has no Until. For example, an administrator may change the PriorityClass, or the API
// server may accept deletions again.
func (r Rule) MayBeLifted() bool {
	return r == RuleToleration || r == RuleNever || r == RuleClassNotFound || r == RuleDeletionRefused
}

// Verdict is the result for one preemptor and one unit: whether the unit may be evicted, and why.
type Verdict struct {
	// Eligible is true if the unit may be evicted.
	Eligible bool
	// Rule is the rule that allows the eviction of the unit, or that protects the unit.
	Rule Rule
	// Until is the end of the protection, in nanoseconds since 1970; 0 if the protection has no
	// fixed end.
	Until int64
	// Queue is the queue whose setting protects the unit; empty if the protection is not a queue's.
	Queue string
}

// passes reports whether the unit is protected now and the end of its protection is known.
func (v Verdict) passes() bool { return !v.Eligible && v.Until != 0 }

// policy decides which units one preemptor may evict. There are two policies. priorityPolicy
// compares only priorities. queuePolicy also uses the fair shares of queues, and min-runtimes that
// limit the losses of a gang. judge applies the same protections with each policy.
type policy interface {
	// rules returns the inputs that the protections read.
	rules() *ruling
	// entitlement returns the verdict on a unit if no protection applies.
	entitlement(u int32) Verdict
	// fits reports whether the units may be evicted together. If not, it returns the bound that
	// they exceed.
	fits(units []int32) (bound, bool)
	// part selects units of a node that may be evicted together. It returns their positions in
	// ascending order, and prefers the first of the given positions. If bounded returns false, the
	// result has all given positions.
	part(col *nodeColumn, positions []int32) []int32
	// bounded reports whether some potential victims must not be evicted together.
	bounded() bool

	// search looks for the cheapest set of victims that the policy allows.
	search(sr *search) Decision
	// everything returns the search over all potential victims. The search may use the memory of
	// mem.
	everything(sr *search, mem *scratch) *search

	// potential returns the number of potential victims.
	potential() int
	// potentialOn lists the potential victims on a node, least important first. The result is valid
	// until the next call.
	potentialOn(n int32) []int32
	// roomOn returns the sum of the requests of the potential victims on a node. The result is
	// valid until the next call.
	roomOn(n int32) []int64
	// protected returns the number of protected units, by rule.
	protected() map[Rule]int
	// named lists the protected units that a Decision names.
	named() []int32
	// passing lists the protected units whose protection ends at a known time.
	passing() []timed
}

// protection is a rule that protects units even if the preemptor is entitled to evict them.
// Protections apply with each policy, to pods and gangs. They have no state: the ruling has all
// their inputs.
type protection interface {
	// protects returns true if the rule protects unit u. The Verdict then has the rule and the end
	// of the protection.
	protects(r *ruling, u int32) (Verdict, bool)
}

// graded is a protection from preemptors with low priorities only.
type graded interface {
	protection
	// below returns the lowest priority of preemptors that may evict the unit despite the rule.
	below(u *Unit) int32
}

// narrow is a protection that can list the few units that it may protect. Other protections must be
// called for every unit.
type narrow interface {
	protection
	// about lists all units that the rule protects, in any order. The list may also contain units
	// that the rule does not protect.
	about(r *ruling) iter.Seq[int32]
}

// leafwise is a protection that can report that it protects no unit of a leaf queue.
type leafwise interface {
	protection
	// ignores returns true only if the rule protects no unit of the leaf queue. A leaf of -1 stands
	// for the units in no queue. Without queues, these are all units.
	ignores(r *ruling, leaf int32) bool
}

// protections returns all protections. If several protect a unit, messages name the protection that
// ends last. Among protections that end at the same time, they name the first in this list.
func protections() []protection {
	return []protection{staticPods{}, refusedPods{}, tolerations{}, minRuntimes{}, staleGangs{}}
}

// timed is a unit whose protection ends at a known time, and the verdict on the unit.
type timed struct {
	unit    int32
	verdict Verdict
}

// judge returns the verdict on one unit: whether it may be evicted, the rule, and the end of a
// protection. See KEP-5710, "Preemption algorithm", step 1, and the min-runtime document. Every
// search and every report calls judge.
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

// endsLater reports whether protection a ends later than protection b. An Until of 0 is later than
// any time.
func endsLater(a, b Verdict) bool { return b.Until != 0 && (a.Until == 0 || a.Until > b.Until) }

// newPolicy returns the policy for one preemptor. It calls judge for no unit.
func newPolicy(v *problem, protections []protection) policy {
	r := newRuling(v, protections)
	if r.bounded() {
		return newQueuePolicy(v, r)
	}
	return &priorityPolicy{ruling: r, v: v}
}
