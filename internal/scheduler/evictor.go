package scheduler

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
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
	return p.hub.reserved.Keeps(snapshot.Placed(&order.Decision)) && p.hub.lostNode(key) == "" &&
		p.hub.entitled.asks(key, p.hub.clock.Now(), func() bool { return !p.hub.isBarred(key) })
}

// entitlements remember for a moment which workloads their queues let have what they have been promised. It is asked twice for each
// victim, and for a gang of hundreds the answer takes milliseconds. The zero value is ready to use, and safe for concurrent use.
type entitlements struct {
	mu    sync.Mutex
	until map[workload.Key]entitlement
	// changes counts what ends all answers at once: queues, and what decides who may be in which.
	changes atomic.Uint64
}

type entitlement struct {
	changes uint64
	ends    time.Time
}

// entitledFor is how long an answer counts. What runs in a queue with a limit changes with any pod, so nothing tells of that.
const entitledFor = 20 * time.Millisecond

// asks returns the answer for a workload. The lock is held meanwhile, so that those who ask at a time share one; isEntitled must
// not call back.
func (e *entitlements) asks(key workload.Key, now time.Time, isEntitled func() bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	changes := e.changes.Load()
	counts := func(known entitlement) bool { return known.changes == changes && now.Before(known.ends) }
	if counts(e.until[key]) {
		return true
	}
	maps.DeleteFunc(e.until, func(_ workload.Key, known entitlement) bool { return !counts(known) })
	if !isEntitled() {
		return false
	}
	if e.until == nil {
		e.until = make(map[workload.Key]entitlement)
	}
	e.until[key] = entitlement{changes: changes, ends: now.Add(entitledFor)}
	return true
}

// askAnew ends all answers.
func (e *entitlements) askAnew() { e.changes.Add(1) }

// RunsAnew reports whether a group with victims runs anew since the order was decided on.
func (p *Plugin) RunsAnew(order *eviction.Order, group types.NamespacedName) bool {
	g, ok := p.hub.groups.Group(group)
	return ok && p.hub.runs.HasBegun(g, order.Seen, p.hub.clock.Now())
}

// HasMoved reports whether a victim has been turned back and has another place since: one is a victim no more once it has.
func (p *Plugin) HasMoved(victim *corev1.Pod) bool {
	return !p.hub.leaving.takes(victim.UID) && p.hub.exists(victim)
}

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
