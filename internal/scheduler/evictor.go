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
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Evictor makes the calls that a decision takes, off the scheduling cycle (KEP-4832).
type Evictor interface {
	// Evict starts to carry an order out and returns at once; what it has to know of the scheduler meanwhile it asks.
	// The channel gets exactly one value, when every victim is on its way out or not all of them will be.
	Evict(ctx context.Context, order eviction.Order, sched eviction.Scheduler) <-chan eviction.Outcome
	// Nominate has the API say where pods are expected and returns at once. What was said last of a pod wins.
	Nominate(ctx context.Context, nominations []podstatus.Nomination)
}

var (
	_ Evictor            = (*eviction.Executor)(nil)
	_ eviction.Scheduler = (*Plugin)(nil)
)

// Wants reports whether the preemptor of an order still has the room that its decision has given it, and may have it.
func (p *Plugin) Wants(order *eviction.Order) bool {
	key := keyIn(&order.Decision)
	return p.hub.wanted.asks(order, p.hub.reserved.Of(key), p.hub.clock, func() bool {
		return p.hub.reserved.Keeps(snapshot.Placed(&order.Decision)) && p.hub.forfeits(key) == "" && p.hub.needs(key, &order.Decision)
	})
}

// needs reports whether a preemptor can be tried, and is still what a decision was for.
func (h *Hub) needs(key workload.Key, d *core.Decision) bool {
	if !key.Gang {
		return h.heldBack(key) == ""
	}
	members := h.membersStill(nameOf(key))
	g, verdict := h.lacks(nameOf(key), &members)
	return h.gangHeldBack(key, &members, verdict) == "" && h.isAsDecidedFor(d, g, &members)
}

// isAsDecidedFor reports whether a gang is still the one that a decision was for, and not another one of its name, and needs as many
// members to be whole as it did then. Pods are taken for those only, and its minCount may have been lowered since.
func (o *occupancy) isAsDecidedFor(d *core.Decision, g *gang.Group, members *gang.Members) bool {
	if g == nil || string(g.UID) != d.Preemptor.UID {
		return false
	}
	return o.lacking(g, members, unplaced(members)) >= d.Preemptor.MinCount
}

// wants remember for a moment which orders are wanted. That is asked twice for each victim, and for a gang of hundreds the answer
// takes milliseconds. The zero value is ready to use, and safe for concurrent use.
type wants struct {
	mu    sync.Mutex
	known map[*eviction.Order]want
	// changes counts what ends all answers at once: a node that is lost, queues, and what decides who may be in which.
	changes atomic.Uint64
}

// want is that an order is wanted.
type want struct {
	// promised is what its preemptor was promised then. The book makes a new slice with any change.
	promised []*reservation.Reservation
	changes  uint64
	ends     time.Time
}

// wantedFor is how long an answer counts. What runs in a queue with a limit changes with any pod, so nothing tells of that.
const wantedFor = 20 * time.Millisecond

// asks returns the answer for an order, whose preemptor is promised so much. The lock is held meanwhile, so that those who ask at a time
// share one; isWanted must not call back.
func (w *wants) asks(order *eviction.Order, promised []*reservation.Reservation, clk clock.PassiveClock, isWanted func() bool) bool {
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

// areSame reports whether two slices are the same one, not only alike.
func areSame(a, b []*reservation.Reservation) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// askAnew ends all answers.
func (w *wants) askAnew() { w.changes.Add(1) }

// RunsAnew reports whether a group with victims runs anew, or is stale no more, since the order was decided on.
func (p *Plugin) RunsAnew(order *eviction.Order, group types.NamespacedName) bool {
	g, ok := p.hub.groups.Group(group)
	return ok && (p.hub.runs.HasBegun(g, order.Seen, p.hub.clock.Now()) || p.hub.isStaleNoMore(order, g))
}

// isGuarded reports whether a group runs for less than the longest of its min-runtimes, so that nothing but its surplus may be taken from
// it.
func (p *Plugin) isGuarded(group types.NamespacedName) bool {
	g, ok := p.hub.groups.Group(group)
	if !ok {
		return false
	}
	now := p.hub.clock.Now()
	start := p.hub.runs.Look(g, now).Start
	if start.IsZero() {
		return false
	}
	members := p.hub.lister.Members(group)
	return now.Before(start.Add(p.hub.protection(g, &members, minRuntimeIn(p.args))))
}

// surplusIn are those of some groups that are guarded and of which a decision takes surplus only: by what it went by. Members that have gone
// since have it hear, before it takes any, that there is less surplus now.
func (p *Plugin) surplusIn(made *cycleDecision, groups []types.NamespacedName) []types.NamespacedName {
	guarded := slices.DeleteFunc(slices.Clone(groups), func(group types.NamespacedName) bool { return !p.isGuarded(group) })
	if len(guarded) == 0 {
		return nil
	}
	goes := make(map[string]bool, len(made.decision.Victims))
	for i := range made.decision.Victims {
		goes[made.decision.Victims[i].UID] = true
	}
	// left are the members that run on, by the UID of their group.
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
		g, ok := p.hub.groups.Group(group)
		if !ok {
			return true
		}
		uid := string(g.UID)
		return left[uid] == nil || !left[uid].IsWhole(minCount[uid])
	})
}

// KeepsMinCount reports whether as many members of a group run on as it needs, of each role,
// without those that are on their way out.
func (p *Plugin) KeepsMinCount(group types.NamespacedName) bool {
	g, ok := p.hub.groups.Group(group)
	if !ok {
		return true
	}
	var left core.Headcount
	members := p.hub.members(group)
	for _, pod := range members.Terminating {
		// The gang needs some of its role, though none may be left.
		left.Add(p.hub.roleOf(g, pod), 0)
	}
	for _, pod := range members.Assigned {
		runs := 0
		if pod.Status.Phase == corev1.PodRunning {
			runs = 1
		}
		left.Add(p.hub.roleOf(g, pod), runs)
	}
	return left.IsWhole(g.MinCount)
}

// HasMoved reports whether a victim has been turned back and has another place since: one is a victim no more once it has.
func (p *Plugin) HasMoved(victim *corev1.Pod) bool {
	return !p.hub.leaving.takes(victim.UID) && p.hub.exists(victim)
}

// HasEnded reports whether a victim has ended by itself, or has gone: the informer has no pods that have ended.
func (p *Plugin) HasEnded(victim *corev1.Pod) bool { return !p.hub.exists(victim) }

// groupsOf are the groups that pods are members of.
func (r *roster) groupsOf(pods []*corev1.Pod) []types.NamespacedName {
	out := sets.New[types.NamespacedName]()
	for _, pod := range pods {
		if key, ok := r.groupOf(pod); ok {
			out.Insert(key)
		}
	}
	return out.UnsortedList()
}

// keyIn is the workload that a decision is for.
func keyIn(d *core.Decision) workload.Key {
	key := workload.Key{Gang: d.Preemptor.Gang, Namespace: d.Preemptor.Namespace, Name: d.Preemptor.Name}
	if !key.Gang {
		key.UID = d.Preemptor.UID
	}
	return key
}

// executions are the goroutines that wait for the outcomes of orders, and act on them. The zero value is ready to use,
// and safe for concurrent use.
type executions struct {
	running sync.WaitGroup
	count   atomic.Int64
}

// follow starts such a goroutine.
func (e *executions) follow(outcomes <-chan eviction.Outcome, act func(eviction.Outcome)) {
	e.count.Add(1)
	e.running.Go(func() {
		defer e.count.Add(-1)
		act(<-outcomes)
	})
}

// Wait returns when no outcome of an order is waited for or being acted on any more. The evictor has to have ended its
// orders by then, or to be about to.
func (h *Hub) Wait() { h.executions.running.Wait() }
