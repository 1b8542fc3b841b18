package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/logging"
	"github.com/reprieve-dev/reprieve/internal/runs"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// staleGangs determines which degraded gangs are stale, so that work of equal priority may preempt
// them. The snapshot asks it, and the main loop calls sweep, which retries that work. Until a gang
// is stale, [lostMembers] keeps room for its lost members. staleGangs is safe for concurrent use.
type staleGangs struct {
	index      *cluster.Index
	placements *cluster.Placements
	cluster    *snapshot.Cache
	gangs      *engine.Gangs
	reserved   *engine.Reservations
	runs       *runs.Reader
	clock      clock.WithTicker
	retries    *retries
}

// degradedBy returns the number of members that a gang has lost, and the time of the first loss.
// Assumed members count as placed. A gang with reservations for its members is not stale, because
// it will soon be complete.
func (sg *staleGangs) degradedBy(g *gang.Group) snapshot.Degraded {
	now := sg.clock.Now()
	since := sg.runs.Current(g, now).DegradedSince
	if since.IsZero() {
		return snapshot.Degraded{}
	}
	members := sg.placements.Members(g.Key)
	out := snapshot.Degraded{Since: since, Lacks: sg.placements.Missing(g, &members)}
	if out.Lacks <= 0 || len(members.Assigned) == 0 {
		return snapshot.Degraded{}
	}
	timeout := sg.timeout(members.Assigned[0])
	out.Stale = timeout > 0 && now.Sub(since) >= timeout && len(sg.reserved.Of(gangKey(g.Key))) == 0
	return out
}

// timeout returns how long a pod's gang may lack members before it is stale, according to the pod's
// profile; 0 for no limit.
func (sg *staleGangs) timeout(pod *corev1.Pod) time.Duration {
	args := sg.index.Profiles.Of(pod.Spec.SchedulerName)
	if args == nil {
		return 0
	}
	return args.Gang.StaleTimeout.Duration
}

// isNoMore reports whether an order evicts a gang because it was stale, although the gang is
// complete now.
func (sg *staleGangs) isNoMore(order *eviction.Order, g *gang.Group) bool {
	if !sg.runs.Look(g, sg.clock.Now()).DegradedSince.IsZero() {
		return false
	}
	return slices.ContainsFunc(order.Decision.Victims, func(v core.Victim) bool {
		return v.Rule == core.RuleStaleGang && (v.UID == string(g.UID) || g.Tree != nil && v.Group &&
			slices.Contains(g.Tree.Leaves(), types.NamespacedName{Namespace: v.Namespace, Name: v.Name}))
	})
}

// look makes the next view read the degraded gangs again. No event reports that such a gang
// becomes stale, or that its reservations change.
func (sg *staleGangs) look() {
	for _, key := range sg.gangs.Degraded() {
		sg.cluster.GroupChanged(nameOf(key))
	}
}

// sweep finds gangs that have become stale, and retries the workloads that may evict them. The main
// loop calls it.
func (sg *staleGangs) sweep(now time.Time) {
	sg.runs.Settle(sg.index.Groups, now)
	var priorities []int32
	for _, key := range sg.gangs.Degraded() {
		g, ok := sg.index.Groups.Group(nameOf(key))
		if !sg.gangs.GoesStale(key, ok && sg.degradedBy(g).Stale) {
			continue
		}
		sg.cluster.GroupChanged(g.Key)
		logging.Of(context.Background(), key).V(2).Info("The gang has lacked members for too long: its room may be taken")
		members := sg.placements.Members(g.Key)
		if all := slices.Concat(members.Assigned, members.Pending); len(all) > 0 {
			priorities = append(priorities, sg.index.PriorityOf(all[0]))
		}
	}
	if len(priorities) > 0 && sg.retries.leads.Load() {
		sg.retries.RetryFrom(slices.Min(priorities))
	}
}

// from returns the time when a degraded gang becomes stale, if its state does not change. It is
// zero for other gangs, and for gangs that never become stale.
func (sg *staleGangs) from(key types.NamespacedName) time.Time {
	g, ok := sg.index.Groups.Group(key)
	if !ok {
		return time.Time{}
	}
	degraded, members := sg.degradedBy(g), sg.placements.Members(key)
	if degraded.Lacks == 0 || len(members.Assigned) == 0 {
		return time.Time{}
	}
	timeout := sg.timeout(members.Assigned[0])
	if timeout == 0 {
		return time.Time{}
	}
	return degraded.Since.Add(timeout)
}
