package scheduler

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// VictimPriority returns the priority of a group as a potential victim, and the verdict on its
// preemptionPriorityClassName. The verdict is zero for a group without that field, and for a group
// whose priority is not resolved. Any goroutine may call it.
func (h *Scheduler) VictimPriority(g *gang.Group) (int32, gang.Verdict) {
	if g.Priority == nil {
		return math.MinInt32, gang.Verdict{}
	}
	scheduling, sealed := *g.Priority, h.runs.Current(g, h.clock.Now()).Sealed
	if sealed.Known {
		scheduling = min(scheduling, sealed.Priority)
	}
	return h.victimPriorityIn(g, scheduling, sealed.Queue)
}

// victimPriorityIn returns the priority of a group as a potential victim; see
// [gang.Group.VictimPriority]. scheduling is the group's priority without the class. placed is the
// queue of its running members; "" for none. The maxPriorityClass of each of these queues bounds
// the priority: the group's queue, placed, and further queues of placed members.
func (h *Scheduler) victimPriorityIn(g *gang.Group, scheduling int32, placed string) (int32, gang.Verdict) {
	if g.PreemptionPriorityClass == "" || h.tolerations == nil {
		return scheduling, gang.Verdict{}
	}
	now := h.ledger.queueOfGroup(g)
	queues := sets.New(now)
	if placed != "" {
		queues.Insert(placed)
	}
	if h.runs.Current(g, h.clock.Now()).Sealed.MixedQueues {
		for _, pod := range h.index.lister.Members(g.Key).Assigned {
			if queue := gang.QueueInSeal(pod); queue != "" {
				queues.Insert(queue)
			}
		}
	}
	var maxima []gang.Maximum
	for _, queue := range sets.List(queues) {
		maxima = append(maxima, h.quotas.MaximumOf(queue))
	}
	return g.VictimPriority(scheduling, h.tolerations.ValueOf, maxima...)
}

// falls describes groups whose priority as potential victims has fallen. from is the lowest
// priority of preemptors that may now evict any of them; it is valid only if the field any is true.
// The main loop retries the preemptors at its next tick.
type falls struct {
	any  bool
	from int32
}

// followVictimPriority records the priority of a group as a potential victim. g is nil for a
// deleted group. If the priority of a group with placed members has fallen, preemptors are retried
// at the next tick; see falls.
func (h *Scheduler) followVictimPriority(key types.NamespacedName, g *gang.Group) {
	h.raising.Lock()
	defer h.raising.Unlock()
	if from, fell := h.recordVictimPriority(key, g); fell && len(h.index.lister.Members(key).Assigned) > 0 {
		if h.fallen.any {
			from = min(from, h.fallen.from)
		}
		h.fallen = falls{any: true, from: from}
		h.engine.Look()
	}
}

// recordVictimPriority records the priority of a group as a potential victim. If it has fallen, it
// returns true and the lowest priority of preemptors that may now evict the group. The caller holds
// h.raising.
func (h *Scheduler) recordVictimPriority(key types.NamespacedName, g *gang.Group) (from int32, fell bool) {
	if g != nil && g.PreemptionPriorityClass != "" && g.Priority != nil {
		now, verdict := h.VictimPriority(g)
		before, known := h.gangs.SetVictimPriority(gangKey(key), engine.VictimPriority{Priority: now, Reason: verdict.Reason})
		return now + 1, known && now < before.Priority
	}
	before, known := h.gangs.EndVictimPriority(gangKey(key))
	if !known {
		return 0, false
	}
	now := int32(math.MinInt32)
	if g != nil {
		now, _ = h.VictimPriority(g)
	}
	return now + 1, now < before.Priority
}

// retryFallen retries the workloads that may now preempt groups whose priority as potential victims
// has fallen since the last call.
func (h *Scheduler) retryFallen() {
	h.raising.Lock()
	fallen := h.fallen
	h.fallen = falls{}
	h.raising.Unlock()
	if fallen.any {
		h.retries.from(fallen.from)
	}
}

// reviewVictimPriorities updates the recorded priorities of all groups with a
// preemptionPriorityClassName. It is called when a PriorityClass or a queue has changed.
func (h *Scheduler) reviewVictimPriorities() {
	for _, key := range h.gangs.VictimPriorities() {
		if g, ok := h.index.groups.Group(nameOf(key)); ok {
			h.cluster.GroupChanged(g.Key)
			h.followVictimPriority(g.Key, g)
		}
	}
}

// isRaisedAbove reports whether an order evicts a group by priority, although the group is now
// protected. This happens if its priority as a potential victim was raised after the decision.
func (h *Scheduler) isRaisedAbove(order *eviction.Order, g *gang.Group) bool {
	d := &order.Decision
	if g.PreemptionPriorityClass == "" {
		return false
	}
	byPriority := slices.ContainsFunc(d.Victims, func(v core.Victim) bool {
		return v.Rule == core.RuleLowerPriority && slices.ContainsFunc(v.Pods, func(p core.VictimPod) bool {
			pod := order.Victims[types.UID(p.UID)]
			return pod != nil && h.index.groupKeyOf(pod) == g.Key
		})
	})
	if !byPriority {
		return false
	}
	counts, _ := h.VictimPriority(g)
	return counts >= d.Preemptor.Priority
}
