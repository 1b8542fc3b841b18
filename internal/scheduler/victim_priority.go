package scheduler

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// VictimPriority returns the priority that a group counts by while it is a potential victim, and
// how its preemptionPriorityClassName counts. The verdict is zero for a group without the field,
// and for one whose priority is not known yet. Any goroutine may call it.
func (h *Scheduler) VictimPriority(g *gang.Group) (int32, gang.Verdict) {
	if g.Priority == nil {
		return math.MinInt32, gang.Verdict{}
	}
	scheduling := *g.Priority
	if g.PreemptionPriorityClass == "" {
		return scheduling, gang.Verdict{}
	}
	sealed := h.runs.Current(g, h.clock.Now()).Sealed
	if sealed.Known {
		scheduling = min(scheduling, sealed.Priority)
	}
	return h.victimPriorityIn(g, scheduling, sealed.Queue)
}

// victimPriorityIn is VictimPriority for a group that counts by a priority without the class. The
// class counts up to the maxPriorityClass of the group's queue. placed is the queue of the running
// members, and "" for none. Its maxPriorityClass is a bound too.
func (h *Scheduler) victimPriorityIn(g *gang.Group, scheduling int32, placed string) (int32, gang.Verdict) {
	if g.PreemptionPriorityClass == "" || h.tolerations == nil {
		return scheduling, gang.Verdict{}
	}
	now := h.queueOfGroup(g)
	maxima := []gang.Maximum{h.quotas.MaximumOf(now)}
	if placed != "" && placed != now {
		maxima = append(maxima, h.quotas.MaximumOf(placed))
	}
	return g.VictimPriority(scheduling, h.tolerations.ValueOf, maxima...)
}

// followVictimPriority records the priority of a group as a potential victim; g is nil for a
// deleted group. If the priority has fallen, the workloads that may preempt the group now are
// retried.
func (h *Scheduler) followVictimPriority(key types.NamespacedName, g *gang.Group) {
	if from, fell := h.recordVictimPriority(key, g); fell {
		h.retryFrom(from)
	}
}

// recordVictimPriority records the priority of a group as a potential victim. If it has fallen, it
// returns the lowest priority of preemptors that may evict the group now.
func (h *Scheduler) recordVictimPriority(key types.NamespacedName, g *gang.Group) (from int32, fell bool) {
	h.raising.Lock()
	defer h.raising.Unlock()
	if g != nil && g.PreemptionPriorityClass != "" && g.Priority != nil {
		now, verdict := h.VictimPriority(g)
		before, known := h.gangs.SetVictimPriority(gangKey(key), engine.VictimPriority{Priority: now, Reason: verdict.Reason})
		return now + 1, known && now < before.Priority
	}
	before, known := h.gangs.EndVictimPriority(gangKey(key))
	if g == nil || g.Priority == nil {
		return math.MinInt32, known
	}
	return *g.Priority + 1, known && *g.Priority < before.Priority
}

// reviewVictimPriorities reads the priorities of all groups with a preemptionPriorityClassName
// again, because a PriorityClass or a queue has changed.
func (h *Scheduler) reviewVictimPriorities() {
	for _, key := range h.gangs.VictimPriorities() {
		if g, ok := h.groups.Group(nameOf(key)); ok {
			h.cluster.GroupChanged(g.Key)
			h.followVictimPriority(g.Key, g)
		}
	}
}

// isRaisedAbove reports whether an order evicts members of a group by priority, although the group
// is protected now. Its priority as a potential victim has been raised since the decision.
func (h *Scheduler) isRaisedAbove(order *eviction.Order, g *gang.Group) bool {
	d := &order.Decision
	if g.PreemptionPriorityClass == "" {
		return false
	}
	byPriority := slices.ContainsFunc(d.Victims, func(v core.Victim) bool {
		return v.Rule == core.RuleLowerPriority && slices.ContainsFunc(v.Pods, func(p core.VictimPod) bool {
			pod := order.Victims[types.UID(p.UID)]
			return pod != nil && h.groupKeyOf(pod) == g.Key
		})
	})
	if !byPriority {
		return false
	}
	counts, _ := h.VictimPriority(g)
	return counts >= d.Preemptor.Priority
}
