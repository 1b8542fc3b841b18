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

// VictimPriority returns the priority of a group as a potential victim, and a verdict on its
// preemptionPriorityClassName. The verdict is zero for a group without the field, and for a group
// whose priority is not known yet. Any goroutine may call it.
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

// victimPriorityIn returns the VictimPriority of a group. scheduling is the priority of the group
// without the class. The maxPriorityClass of the group's queue bounds the priority of the class.
// placed is the queue of the running members, "" for none; its maxPriorityClass is a bound too. If
// members were placed in several queues, each of these is a bound.
func (h *Scheduler) victimPriorityIn(g *gang.Group, scheduling int32, placed string) (int32, gang.Verdict) {
	if g.PreemptionPriorityClass == "" || h.tolerations == nil {
		return scheduling, gang.Verdict{}
	}
	now := h.queueOfGroup(g)
	queues := sets.New(now)
	if placed != "" {
		queues.Insert(placed)
	}
	if h.runs.Current(g, h.clock.Now()).Sealed.MixedQueues {
		for _, pod := range h.lister.Members(g.Key).Assigned {
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

// falls has the lowest priority of preemptors that may evict a group whose priority as a potential
// victim has fallen. The main loop retries them at its next tick, once for all groups.
type falls struct {
	any  bool
	from int32
}

// followVictimPriority records the priority of a group as a potential victim; g is nil for a
// deleted group. If the priority has fallen, and members are placed, the workloads that may preempt
// the group now are retried soon.
func (h *Scheduler) followVictimPriority(key types.NamespacedName, g *gang.Group) {
	h.raising.Lock()
	defer h.raising.Unlock()
	if from, fell := h.recordVictimPriority(key, g); fell && len(h.lister.Members(key).Assigned) > 0 {
		if h.fallen.any {
			from = min(from, h.fallen.from)
		}
		h.fallen = falls{any: true, from: from}
		h.engine.Look()
	}
}

// recordVictimPriority records the priority of a group as a potential victim. If it has fallen, it
// returns the lowest priority of preemptors that may evict the group now. The caller holds the
// lock.
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

// retryFallen retries the workloads that may now preempt groups whose priority has fallen since the
// last call.
func (h *Scheduler) retryFallen() {
	h.raising.Lock()
	fallen := h.fallen
	h.fallen = falls{}
	h.raising.Unlock()
	if fallen.any {
		h.retryFrom(fallen.from)
	}
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
