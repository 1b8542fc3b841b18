package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// degradedBy returns the number of members that a gang has lost, and the time of the first loss.
// Assumed members count as placed. A gang with reservations for its members is about to be
// complete, so it is not stale.
func (h *Scheduler) degradedBy(g *gang.Group) snapshot.Degraded {
	now := h.clock.Now()
	since := h.runs.Current(g, now).DegradedSince
	if since.IsZero() {
		return snapshot.Degraded{}
	}
	members := h.placements.members(g.Key)
	out := snapshot.Degraded{Since: since, Lacks: g.MinCount - h.placements.through(&members)}
	if g.Tree != nil {
		out.Lacks = lackingInTree(g, &members, nil)
	}
	if out.Lacks <= 0 || len(members.Assigned) == 0 {
		return snapshot.Degraded{}
	}
	timeout := h.staleTimeout(members.Assigned[0])
	out.Stale = timeout > 0 && now.Sub(since) >= timeout && len(h.reserved.Of(gangKey(g.Key))) == 0
	return out
}

// staleTimeout returns how long a pod's gang may lack members before it is stale, according to the
// pod's profile; 0 for no limit.
func (h *Scheduler) staleTimeout(pod *corev1.Pod) time.Duration {
	args := h.index.profiles.of(pod.Spec.SchedulerName)
	if args == nil {
		return 0
	}
	return args.Gang.StaleTimeout.Duration
}

// isStaleNoMore reports whether an order evicts a gang because it was stale, although the gang is
// complete now.
func (h *Scheduler) isStaleNoMore(order *eviction.Order, g *gang.Group) bool {
	if !h.runs.Look(g, h.clock.Now()).DegradedSince.IsZero() {
		return false
	}
	return slices.ContainsFunc(order.Decision.Victims, func(v core.Victim) bool {
		return v.Rule == core.RuleStaleGang && v.UID == string(g.UID)
	})
}

// lookAtStale makes the next view read the degraded gangs again. No event reports that such a gang
// becomes stale, or that its reservations change.
func (h *Scheduler) lookAtStale() {
	for _, key := range h.gangs.Degraded() {
		h.cluster.GroupChanged(nameOf(key))
	}
}

// sweepStale finds gangs that have become stale, and retries the workloads that may evict them.
func (h *Scheduler) sweepStale(now time.Time) {
	h.runs.Settle(h.index.groups, now)
	var priorities []int32
	for _, key := range h.gangs.Degraded() {
		g, ok := h.index.groups.Group(nameOf(key))
		if !h.gangs.GoesStale(key, ok && h.degradedBy(g).Stale) {
			continue
		}
		h.cluster.GroupChanged(g.Key)
		logOf(context.Background(), key).V(2).Info("The gang has lacked members for too long: its room may be taken")
		members := h.placements.members(g.Key)
		if all := slices.Concat(members.Assigned, members.Pending); len(all) > 0 {
			priorities = append(priorities, h.index.priorityOf(all[0]))
		}
	}
	if len(priorities) > 0 && h.retries.leads.Load() {
		h.retries.from(slices.Min(priorities))
	}
}

// from retries all unplaced workloads with at least a certain priority.
func (t *retries) from(least int32) {
	pods, err := t.index.pods.List(labels.Everything())
	if err != nil {
		return
	}
	retried := sets.New[workload.Key]()
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || t.index.profiles.of(pod.Spec.SchedulerName) == nil || t.index.priorityOf(pod) < least {
			continue
		}
		if key := t.index.keyOf(pod); !retried.Has(key) {
			retried.Insert(key)
			t.now(key)
		}
	}
}

// StaleFrom returns the time when a degraded gang becomes stale, if its state does not change. It
// is zero for other gangs, and for gangs that never become stale.
func (h *Scheduler) StaleFrom(key types.NamespacedName) time.Time {
	g, ok := h.index.groups.Group(key)
	if !ok {
		return time.Time{}
	}
	degraded, members := h.degradedBy(g), h.placements.members(key)
	if degraded.Lacks == 0 || len(members.Assigned) == 0 {
		return time.Time{}
	}
	timeout := h.staleTimeout(members.Assigned[0])
	if timeout == 0 {
		return time.Time{}
	}
	return degraded.Since.Add(timeout)
}
