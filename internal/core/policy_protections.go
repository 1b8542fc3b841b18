package core

import (
	"iter"
	"maps"
	"math"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// staticPods protects static pods, which the kubelet runs from local files. The API has only a
// mirror pod, and deleting it frees no room.
type staticPods struct{}

func (staticPods) protects(r *ruling, u int32) (Verdict, bool) {
	return Verdict{Rule: RuleStaticPod}, r.s.Units[u].Static
}

func (staticPods) about(r *ruling) iter.Seq[int32] { return maps.Keys(r.c.having[traitStatic]) }

// refusedPods protects units with a pod whose deletion the API server rejected. If other victims
// were evicted together with such a unit, the preemptor would still have no room.
type refusedPods struct{}

func (refusedPods) protects(r *ruling, u int32) (Verdict, bool) {
	until := r.s.Units[u].RefusedUntil
	return Verdict{Rule: RuleDeletionRefused, Until: until}, until != 0 && r.p.Now <= until
}

func (refusedPods) about(r *ruling) iter.Seq[int32] { return maps.Keys(r.c.having[traitRefused]) }

// tolerations protects units whose PriorityClass tolerates preemption by the preemptor's priority,
// for a time or forever (proposal "Preemption Toleration"). It also protects the members of groups
// in disruption mode Never, for the time and from the priorities that the PriorityClass sets.
type tolerations struct{}

func (tolerations) protects(r *ruling, u int32) (Verdict, bool) {
	t, p := r.s.Units[u].Toleration, r.p
	if t == nil || p.IgnoresTolerations || p.Priority >= t.Below {
		return Verdict{}, false
	}
	v := Verdict{Rule: RuleToleration, Until: t.Until}
	if t.Lasts > 0 {
		v.Until = fairshare.Add(r.begin, t.Lasts)
	}
	if p.Now > v.Until {
		return Verdict{}, false
	}
	if v.Until == Forever {
		v.Until = 0
	}
	switch {
	case t.ClassNotFound:
		v.Rule = RuleClassNotFound
	case t.Never:
		v.Rule = RuleNever
	}
	return v, true
}

func (tolerations) below(u *Unit) int32 { return u.Toleration.Below }

func (tolerations) about(r *ruling) iter.Seq[int32] {
	if r.p.IgnoresTolerations {
		return func(func(int32) bool) {}
	}
	return maps.Keys(r.c.having[traitTolerant])
}

// minRuntimes protects units that have not yet run for their min-runtime. Surplus members are an
// exception if the members of their gang are evicted one by one. [ledger] bounds the number of
// surplus members that are evicted together. For an unknown preemptor, only members with Surplus
// set are unprotected.
type minRuntimes struct{}

func (minRuntimes) protects(r *ruling, u int32) (Verdict, bool) {
	v, young := r.young(u)
	unit := &r.s.Units[u]
	return v, young && (!elastic(unit) || r.surplusOf(unit) <= 0 || r.anyone && !unit.Surplus)
}

func (minRuntimes) ignores(r *ruling, leaf int32) bool {
	if !r.inWindows() {
		return true
	}
	runtime := r.longestMinRuntimeOf(leaf)
	list := &r.index.lists[leaf+1]
	if runtime > 0 && list.unbegun > 0 {
		return false
	}
	_, young := window(list.latest, runtime, r.p.Now)
	return !young
}

// window returns the end of a min-runtime that began at since; 0 if the min-runtime has no end.
// young is true while the min-runtime lasts.
func window(since, runtime, now int64) (until int64, young bool) {
	if runtime <= 0 {
		return 0, false
	}
	if until = fairshare.Add(since, runtime); until == math.MaxInt64 {
		return 0, true
	}
	return until, now <= until
}

// young reports whether a unit has not yet run for its min-runtime. The Verdict has the rule, the
// end of the min-runtime and the queue with the setting.
func (r *ruling) young(u int32) (Verdict, bool) {
	if !r.inWindows() {
		return Verdict{}, false
	}
	queue, runtime := r.minRuntimeOf(r.leafOf[u], r.defaultsOf(&r.s.Units[u]))
	since := r.s.Units[u].Since
	if since == 0 {
		since = r.begin
	}
	until, young := window(since, runtime, r.p.Now)
	if !young {
		return Verdict{}, false
	}
	v := Verdict{Rule: RulePreemptMinRuntime, Until: until}
	if r.reclaims(u) {
		v.Rule = RuleReclaimMinRuntime
	}
	if queue >= 0 {
		v.Queue = r.t.Queue(queue).Name
	}
	return v, true
}
