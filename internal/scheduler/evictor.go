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
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Evictor makes the API calls of a decision outside of the scheduling cycle (KEP-4832).
type Evictor interface {
	// Evict starts to carry out an order and returns at once. It asks sched about the state of the
	// scheduler meanwhile. The channel gets exactly one value, when every victim is terminating or
	// the order has failed.
	Evict(ctx context.Context, order eviction.Order, sched eviction.Scheduler) <-chan eviction.Outcome
	// Nominate writes the nominations of pods to the API and returns at once. The last nomination
	// of a pod wins.
	Nominate(ctx context.Context, nominations []podstatus.Nomination)
}

var (
	_ Evictor            = (*eviction.Executor)(nil)
	_ eviction.Scheduler = (*Plugin)(nil)
)

// Wants reports whether an order is still useful: its preemptor still needs the room, still has the
// reservations, and may use them.
func (p *Plugin) Wants(order *eviction.Order) bool {
	key := keyIn(&order.Decision)
	return p.sched.wanted.asks(order, p.sched.reserved.Of(key), p.sched.clock, func() bool {
		return p.sched.reserved.Keeps(nodesByUID(snapshot.Placed(&order.Decision))) && p.sched.invalidBecause(key) == "" && p.sched.needs(key, &order.Decision)
	})
}

// needs reports whether a preemptor may still be scheduled, and is still the workload that the
// decision was made for.
func (h *Scheduler) needs(key workload.Key, d *core.Decision) bool {
	if !key.Gang {
		return h.blockedBy(key) == ""
	}
	members := h.membersAsReserved(nameOf(key))
	g, verdict := h.lacks(nameOf(key), &members)
	return h.gangBlockedBy(key, &members, verdict) == "" && h.isAsDecidedFor(d, g, &members)
}

// isAsDecidedFor reports whether a decision was made for this gang, and not for an earlier gang of
// the same name. The gang must also lack at least as many members as the decision assumed. Pods are
// evicted only for lacking members, and minCount may have been lowered since.
func (o *placements) isAsDecidedFor(d *core.Decision, g *gang.Group, members *gang.Members) bool {
	if g == nil || string(g.UID) != d.Preemptor.UID {
		return false
	}
	return o.lacking(g, members, unplaced(members)) >= d.Preemptor.MinCount
}

// wants caches for a short time that the preemptor of an order still needs it. The evictor asks
// twice for each victim, and for a gang of hundreds of members the answer takes milliseconds. The
// zero value is ready to use. It is safe for concurrent use.
type wants struct {
	mu    sync.Mutex
	known map[*eviction.Order]want
	// changes is the number of events that invalidate all answers: lost nodes, changed groups, and
	// changes of queues or of the access to queues.
	changes atomic.Uint64
}

// want is a cached answer: the preemptor of an order needs it.
type want struct {
	// promised has the preemptor's reservations at the time of the answer. Any change of them makes
	// a new slice.
	promised []*engine.Reservation
	changes  uint64
	ends     time.Time
}

// wantedFor is the lifetime of a cached answer. At a limit, any pod may change the usage of the
// queue, so no event could invalidate the answer.
const wantedFor = 20 * time.Millisecond

// asks reports whether an order is wanted, from the cache or by calling isWanted. A change of the
// preemptor's reservations invalidates the cached answer. asks holds its lock during the call, so
// that concurrent callers share one answer. isWanted must not call asks.
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

// areSame reports whether two slices share their elements in memory.
func areSame(a, b []*engine.Reservation) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// askAnew ends all answers.
func (w *wants) askAnew() { w.changes.Add(1) }

// RunsAnew reports whether a new run of a victim group has begun since the decision. It also
// returns true for a group that is evicted as stale and is complete now.
func (p *Plugin) RunsAnew(order *eviction.Order, group types.NamespacedName) bool {
	g, ok := p.sched.workloadOf(group)
	return ok && (p.sched.runs.HasBegun(g, order.Seen, p.sched.clock.Now()) || p.sched.isStaleNoMore(order, g) || p.sched.isRaisedAbove(order, g))
}

// isGuarded reports whether a group is within the longest of its min-runtimes. Only its surplus may
// be evicted then.
func (p *Plugin) isGuarded(group types.NamespacedName) bool {
	g, ok := p.sched.groups.Group(group)
	if !ok {
		return false
	}
	now := p.sched.clock.Now()
	start := p.sched.runs.Look(g, now).Clock
	if start.IsZero() {
		return false
	}
	members := p.sched.lister.Members(group)
	return now.Before(start.Add(p.sched.protection(g, &members, minRuntimeIn(p.args))))
}

// surplusIn returns those groups inside a min-runtime that lose only surplus members, according to
// the snapshot of the decision. If such a group loses other members meanwhile, the eviction checks
// before each pod that surplus is left.
func (p *Plugin) surplusIn(made *cycleDecision, groups []types.NamespacedName) []types.NamespacedName {
	guarded := slices.DeleteFunc(slices.Clone(groups), func(group types.NamespacedName) bool { return !p.isGuarded(group) })
	if len(guarded) == 0 {
		return nil
	}
	goes := make(map[string]bool, len(made.decision.Victims))
	for i := range made.decision.Victims {
		goes[made.decision.Victims[i].UID] = true
	}
	// left has the number of members that keep running, by the UID of their group.
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
		g, ok := p.sched.groups.Group(group)
		if !ok {
			return true
		}
		uid := string(g.UID)
		return left[uid] == nil || !left[uid].IsWhole(minCount[uid])
	})
}

// KeepsMinCount reports whether a group has enough running members, also of each role. Terminating
// members do not count.
func (p *Plugin) KeepsMinCount(group types.NamespacedName) bool {
	g, ok := p.sched.groups.Group(group)
	if !ok {
		return true
	}
	var left core.Headcount
	members := p.sched.members(group)
	for _, pod := range members.Terminating {
		// The gang needs members of this role, even if no other member has it.
		left.Add(p.sched.roleOf(g, pod), 0)
	}
	for _, pod := range members.Assigned {
		runs := 0
		if pod.Status.Phase == corev1.PodRunning {
			runs = 1
		}
		left.Add(p.sched.roleOf(g, pod), runs)
	}
	return left.IsWhole(p.sched.countsBy(g))
}

// HasMoved reports whether a victim was returned to the queue and has another place now. Then it is
// no victim any more.
func (p *Plugin) HasMoved(victim *corev1.Pod) bool {
	return !p.sched.leaving.takes(victim.UID) && p.sched.exists(victim)
}

// HasEnded reports whether a victim has finished or is gone. The informer has no finished pods.
func (p *Plugin) HasEnded(victim *corev1.Pod) bool { return !p.sched.exists(victim) }

// groupsOf returns the groups of pods, in no order.
func (r *clusterIndex) groupsOf(pods []*corev1.Pod) []types.NamespacedName {
	out := sets.New[types.NamespacedName]()
	for _, pod := range pods {
		if key, ok := r.groupOf(pod); ok {
			out.Insert(key)
		}
	}
	return out.UnsortedList()
}

// keyIn returns the key of the workload that a decision was made for.
func keyIn(d *core.Decision) workload.Key {
	key := workload.Key{Gang: d.Preemptor.Gang, Namespace: d.Preemptor.Namespace, Name: d.Preemptor.Name}
	if !key.Gang {
		key.UID = d.Preemptor.UID
	}
	return key
}

// executions counts the goroutines that wait for the outcomes of orders or act on them. The zero
// value is ready to use, and safe for concurrent use.
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

// Wait returns when no goroutine waits for the outcome of an order or acts on one. Stop the evictor
// first, so that its orders end.
func (h *Scheduler) Wait() { h.executions.running.Wait() }
