package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/profiles"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Evictor makes the API calls of decisions outside the scheduling cycle (KEP-4832).
type Evictor interface {
	// Evict starts to apply an order and returns at once. While it runs, it asks sched for the
	// current state of preemptor and victims. The channel gets exactly one value: when every victim
	// is terminating, or when the order has failed.
	Evict(ctx context.Context, order eviction.Order, sched eviction.Scheduler) <-chan eviction.Outcome
	// Nominate writes nominations to the API and returns at once. If it is called several times for
	// a pod, the last nomination counts.
	Nominate(ctx context.Context, nominations []podstatus.Nomination)
}

var (
	_ Evictor            = (*eviction.Executor)(nil)
	_ eviction.Scheduler = (*Plugin)(nil)
)

// Wants reports whether an order is still useful. Its preemptor must still need the room, have the
// reservations, and be allowed to use them.
func (p *Plugin) Wants(order *eviction.Order) bool {
	key := keyIn(&order.Decision)
	return p.sched.wanted.asks(order, p.sched.reserved.Of(key), p.sched.clock, func() bool {
		return p.sched.reserved.Keeps(nodesByUID(snapshot.Placed(&order.Decision))) && p.sched.ledger.InvalidBecause(key) == "" && p.sched.placements.Needs(key, &order.Decision)
	})
}

// wants caches, for a short time, that an order is still wanted. The evictor asks twice for each
// victim, and the check takes milliseconds for a gang of hundreds of members. The zero value is
// ready to use. It is safe for concurrent use.
type wants struct {
	mu    sync.Mutex
	known map[*eviction.Order]want
	// changes counts the events that invalidate all cached results: lost nodes, changed groups,
	// changes of queues, and changes of the access to queues.
	changes atomic.Uint64
}

// want records that an order was wanted.
type want struct {
	// promised are the preemptor's reservations at the time of the check. Every change of the
	// reservations makes a new slice.
	promised []*engine.Reservation
	changes  uint64
	ends     time.Time
}

// wantedFor is the lifetime of a cached result. It is short because any pod may change the usage of
// a queue at its limit, and no event reports such a change.
const wantedFor = 20 * time.Millisecond

// asks reports whether an order is still wanted. It uses the cached result, or else calls isWanted.
// A cached result is valid only if the preemptor's reservations have not changed since. asks holds
// its lock while it calls isWanted, so that concurrent callers share the result. Therefore,
// isWanted must not call asks.
func (w *wants) asks(order *eviction.Order, promised []*engine.Reservation, clk clock.PassiveClock, isWanted func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := clk.Now()
	changes := w.changes.Load()
	counts := func(known want) bool { return known.changes == changes && now.Before(known.ends) }
	if known, ok := w.known[order]; ok && counts(known) && areSame(known.promised, promised) {
		return true
	}
	maps.DeleteFunc(w.known, func(_ *eviction.Order, known want) bool { return !counts(known) })
	if !isWanted() {
		return false
	}
	if w.known == nil {
		w.known = make(map[*eviction.Order]want)
	}
	w.known[order] = want{promised: promised, changes: changes, ends: now.Add(wantedFor)}
	return true
}

// areSame reports whether two slices have the same elements at the same address.
func areSame(a, b []*engine.Reservation) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// askAnew invalidates all cached results.
func (w *wants) askAnew() { w.changes.Add(1) }

// RunsAnew reports whether the protections of a victim group have changed since the decision, so
// that the group must not be evicted now. For example, a new run of the group has begun, or the
// order evicts the group as stale although the group is complete again.
func (p *Plugin) RunsAnew(order *eviction.Order, group types.NamespacedName) bool {
	g, ok := p.sched.index.WorkloadOf(group)
	return ok && (p.sched.runs.HasBegun(g, order.Seen, p.sched.clock.Now()) || p.sched.stale.isNoMore(order, g) || p.sched.victimPriorities.IsRaisedAbove(order, g))
}

// isGuarded reports whether a min-runtime protects a group now. In this time, only surplus members
// may be evicted.
func (p *Plugin) isGuarded(group types.NamespacedName) bool {
	g, ok := p.sched.index.Groups.Group(group)
	if !ok {
		return false
	}
	now := p.sched.clock.Now()
	start := p.sched.runs.Look(g, now).Clock
	if start.IsZero() {
		return false
	}
	members := p.sched.index.Lister.Members(group)
	return now.Before(start.Add(p.sched.ledger.Protection(g, &members, profiles.MinRuntimeIn(p.args))))
}

// surplusIn returns the groups that a min-runtime protects and that lose only surplus members,
// according to the snapshot of the decision. Such a group may lose other members after the
// decision. So the eviction checks before each pod whether the group still has surplus.
func (p *Plugin) surplusIn(made *cycleDecision, groups []types.NamespacedName) []types.NamespacedName {
	guarded := slices.DeleteFunc(slices.Clone(groups), func(group types.NamespacedName) bool { return !p.isGuarded(group) })
	if len(guarded) == 0 {
		return nil
	}
	goes := make(map[string]bool, len(made.decision.Victims))
	for i := range made.decision.Victims {
		goes[made.decision.Victims[i].UID] = true
	}
	// left maps the UID of each group to the number of its members that keep running.
	left, minCount := make(map[string]*core.Headcount), make(map[string]int)
	units := made.view.Cluster.Units
	for i := range units {
		u := &units[i]
		if u.Group || u.PodGroup == "" || u.Membership == nil || u.Membership.MinCount == 0 {
			continue
		}
		if left[u.PodGroup] == nil {
			left[u.PodGroup], minCount[u.PodGroup] = &core.Headcount{}, int(u.Membership.MinCount)
		}
		runs := 0
		if u.Running && !goes[u.UID] {
			runs = 1
		}
		left[u.PodGroup].Add(u.Role, runs)
	}
	return slices.DeleteFunc(guarded, func(group types.NamespacedName) bool {
		g, ok := p.sched.index.Groups.Group(group)
		if !ok {
			return true
		}
		uid := string(g.UID)
		return left[uid] == nil || !left[uid].IsWhole(minCount[uid])
	})
}

// KeepsMinCount reports whether a group has enough running members, in total and in each role.
// Terminating members do not count.
func (p *Plugin) KeepsMinCount(group types.NamespacedName) bool {
	g, ok := p.sched.index.Groups.Group(group)
	if !ok {
		return true
	}
	var left core.Headcount
	members := p.sched.placements.Members(group)
	for _, pod := range members.Terminating {
		// Adding 0 records the role, so that its need is checked even without a running member.
		left.Add(p.sched.index.RoleOf(g, pod), 0)
	}
	for _, pod := range members.Assigned {
		runs := 0
		if pod.Status.Phase == corev1.PodRunning {
			runs = 1
		}
		left.Add(p.sched.index.RoleOf(g, pod), runs)
	}
	return left.IsWhole(p.sched.surplus.countsBy(g))
}

// HasMoved reports whether a victim was returned to the queue and placed elsewhere, so that it is
// no longer a victim.
func (p *Plugin) HasMoved(victim *corev1.Pod) bool {
	return !p.sched.leaving.Takes(victim.UID) && p.sched.index.Exists(victim)
}

// HasEnded reports whether a victim has finished or is deleted. The informer does not hold finished
// pods.
func (p *Plugin) HasEnded(victim *corev1.Pod) bool { return !p.sched.index.Exists(victim) }

// keyIn returns the key of the workload that a decision was made for.
func keyIn(d *core.Decision) workload.Key {
	key := workload.Key{Gang: d.Preemptor.Gang, Namespace: d.Preemptor.Namespace, Name: d.Preemptor.Name}
	if !key.Gang {
		key.UID = d.Preemptor.UID
	}
	return key
}

// executions counts the goroutines that wait for the outcome of an order or handle it. The zero
// value is ready to use. It is safe for concurrent use.
type executions struct {
	running sync.WaitGroup
	count   atomic.Int64
}

// follow starts a goroutine that calls act with the outcome of an order.
func (e *executions) follow(outcomes <-chan eviction.Outcome, act func(eviction.Outcome)) {
	e.count.Add(1)
	e.running.Go(func() {
		defer e.count.Add(-1)
		act(<-outcomes)
	})
}

// Wait blocks until no goroutine waits for the outcome of an order or handles one. Stop the evictor
// before the call, so that all orders end.
func (h *Scheduler) Wait() { h.executions.running.Wait() }
