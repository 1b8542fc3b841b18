package core

import "iter"

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
	// RuleClassNotFound protects units whose PriorityClass does not exist, so that what they tolerate is not known.
	RuleClassNotFound Rule = "PriorityClassNotFound"
	// RuleStaleGang: the unit is a gang that has had fewer members than it needs for too long. Work
	// of equal priority may take it, whole.
	RuleStaleGang Rule = "StaleGang"
	// RuleMoreImportantGang protects a stale gang from a gang that lacks members itself and is less
	// important.
	RuleMoreImportantGang Rule = "MoreImportantGang"
	// RuleReclaim: the unit's queue has more than its fair share, and the preemptor's does not.
	RuleReclaim Rule = "Reclaim"
	// RuleFairShare protects units of other queues that have no more than their fair share.
	RuleFairShare Rule = "FairShare"
	// RuleOverShare protects units of other queues from a preemptor whose own would have more than its fair share.
	RuleOverShare Rule = "PreemptorOverFairShare"
	// RuleQuota protects units without which their queue would have less than its quota.
	RuleQuota Rule = "Quota"
	// RuleLimit bounds what the work of a queue may come to.
	RuleLimit Rule = "QueueLimit"
	// RulePreemptMinRuntime protects units that have not run long enough from preemption by priority.
	RulePreemptMinRuntime Rule = "PreemptMinRuntime"
	// RuleReclaimMinRuntime protects units that have not run long enough from reclaim.
	RuleReclaimMinRuntime Rule = "ReclaimMinRuntime"
	// RuleStaticPod protects static pods: the kubelet of their node runs them by itself, whatever is deleted in the API.
	RuleStaticPod Rule = "StaticPod"
	// RuleDeletionRefused protects units with a pod whose deletion the API server has refused a moment ago.
	RuleDeletionRefused Rule = "DeletionRefused"
	// RuleOwnGang protects the members of the preemptor's own PodGroup.
	RuleOwnGang Rule = "OwnGang"
	// RuleNeverPreempts protects every unit from a preemptor whose preemptionPolicy is Never, or that backs off from preempting.
	RuleNeverPreempts Rule = "NeverPreempts"
	// RuleUnknownQueue protects every unit from a preemptor that names a queue in which there can be no work: what it
	// is entitled to is not known.
	RuleUnknownQueue Rule = "UnknownQueue"
)

// MayBeLifted reports whether a protection by the rule may end before its time, or without one: an administrator changes the
// PriorityClass that it goes by, or whatever refuses deletions.
func (r Rule) MayBeLifted() bool {
	return r == RuleToleration || r == RuleClassNotFound || r == RuleDeletionRefused
}

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

// policy says what one preemptor may take. There are two: priorityPolicy, where nothing but priority orders units, and
// queuePolicy, where queues are entitled to shares or min-runtimes bound what a gang may lose. Both hear the same
// protections, in judge.
type policy interface {
	// rules is what the protections look at.
	rules() *ruling
	// entitlement is the verdict on a unit before any protection is heard.
	entitlement(u int32) Verdict
	// fits reports whether units may be taken together. Otherwise it names the bound that they exceed.
	fits(units []int32) (bound, bool)
	// part is the part of a node's units, given by their positions in its column, that may be taken together, the
	// first ones first, in ascending order; all of them where bounded is false.
	part(col *nodeColumn, positions []int32) []int32
	bounded() bool

	// search is the search for the cheapest victims, with all that it takes to keep within bounds.
	search(sr *search) Decision
	// everything is the search among all potential victims, in borrowed memory.
	everything(sr *search, mem *scratch) *search

	// potential counts the potential victims; potentialOn lists those on a node, least important first, and roomOn is
	// the room that they make. Both results are good until the next call.
	potential() int
	potentialOn(n int32) []int32
	roomOn(n int32) []int64
	// protected counts the other units by rule; named are those of them that a Decision names, and passing those that
	// are protected for a time only.
	protected() map[Rule]int
	named() []int32
	passing() []timed
}

// protection is a rule that keeps a unit from a preemptor that is entitled to it. Protections are in force under every
// policy, for pods and gangs. They are stateless: what they look at is in the ruling.
type protection interface {
	// protects gives the verdict that names the rule and its end. It is false where the rule does not protect the unit.
	protects(r *ruling, u int32) (Verdict, bool)
}

// graded is a protection that holds against low priorities only.
type graded interface {
	protection
	// below is the lowest priority of preemptors that may take a unit which the rule protects.
	below(u *Unit) int32
}

// narrow is a protection that knows which few units it may be about. Others are asked about every unit.
type narrow interface {
	protection
	// about lists no fewer units than the rule protects, in any order.
	about(r *ruling) iter.Seq[int32]
}

// leafwise is a protection that may know of a whole leaf queue that none of its units is protected.
type leafwise interface {
	protection
	// ignores is true only where the rule protects no unit of the leaf; -1 stands for the units in no queue, and for all
	// units where queues are of no account.
	ignores(r *ruling, leaf int32) bool
}

// protections are all rules of that kind. Of those that protect a unit, the one that holds longest is
// reported, and the first of several.
func protections() []protection {
	return []protection{staticPods{}, refusals{}, tolerations{}, minRuntimes{}, staleGangs{}}
}

// timed is a unit with the rule that protects it for a time.
type timed struct {
	unit    int32
	verdict Verdict
}

// judge says of one unit whether it may be taken, by which rule, and until when not (KEP-5710, "Preemption algorithm",
// step 1; min-runtime document). Every search and every report goes by it.
func judge(by policy, u int32) Verdict {
	r := by.rules()
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

// endsLater reports whether one protection holds longer than another.
func endsLater(a, b Verdict) bool { return b.Until != 0 && (a.Until == 0 || a.Until > b.Until) }

// newPolicy is the policy for one preemptor, before it has looked at any unit.
func newPolicy(v *view, protections []protection) policy {
	r := newRuling(v, protections)
	if r.bounded() {
		return newQueuePolicy(v, r)
	}
	return &priorityPolicy{ruling: r, v: v}
}
