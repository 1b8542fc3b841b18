package victims

import (
	"math"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/runs"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// Priorities follows the priorities of groups as potential victims, and retries preemptors when
// such a priority falls. Use [New] to create a value. It is safe for concurrent use.
type Priorities struct {
	index       *cluster.Index
	ledger      *cluster.Ledger
	quotas      *queue.Ledger
	cluster     *snapshot.Cache
	tolerations *snapshot.ClassTolerations
	engine      *engine.Engine
	gangs       *engine.Gangs
	runs        *runs.Reader
	clock       clock.PassiveClock
	retries     Retrier

	// raising is a lock. Its holder may change the recorded priorities of potential victims. It
	// also guards fallen.
	raising sync.Mutex
	// fallen describes the groups whose priority has fallen since the last tick.
	fallen falls
}

// Retrier retries workloads that may preempt now.
type Retrier interface {
	// RetryFrom retries the waiting workloads of this priority or a higher one.
	RetryFrom(least int32)
}

// Sources holds the inputs of [Priorities].
type Sources struct {
	Index  *cluster.Index
	Ledger *cluster.Ledger
	Quotas *queue.Ledger
	// Snapshot is the cached snapshot of the cluster. [Priorities.Review] makes it read the groups
	// again.
	Snapshot *snapshot.Cache
	// Tolerations has the values of the PriorityClasses. If it is nil, no class raises a priority.
	Tolerations *snapshot.ClassTolerations
	// Engine has the recorded priorities.
	Engine  *engine.Engine
	Runs    *runs.Reader
	Clock   clock.PassiveClock
	Retries Retrier
}

// New returns the Priorities of the groups in an Index.
func New(in Sources) *Priorities {
	return &Priorities{
		index: in.Index, ledger: in.Ledger, quotas: in.Quotas, cluster: in.Snapshot, tolerations: in.Tolerations,
		engine: in.Engine, gangs: in.Engine.Gangs, runs: in.Runs, clock: in.Clock, retries: in.Retries,
	}
}

// Of returns the priority of a group as a potential victim, and the verdict on its
// preemptionPriorityClassName. The verdict is zero for a group without that field, and for a group
// whose priority is not resolved. Any goroutine may call it.
func (vp *Priorities) Of(g *gang.Group) (int32, gang.Verdict) {
	if g.Priority == nil {
		return math.MinInt32, gang.Verdict{}
	}
	scheduling, sealed := *g.Priority, vp.runs.Current(g, vp.clock.Now()).Sealed
	if sealed.Known {
		scheduling = min(scheduling, sealed.Priority)
	}
	return vp.In(g, scheduling, sealed.Queue)
}

// In returns the priority of a group as a potential victim; see [gang.Group.VictimPriority].
// scheduling is the group's priority without the class. placed is the queue of its running members;
// "" for none. Three kinds of queues bound the priority by their maxPriorityClass: the queue of the
// group, the queue placed, and further queues of placed members.
func (vp *Priorities) In(g *gang.Group, scheduling int32, placed string) (int32, gang.Verdict) {
	if g.PreemptionPriorityClass == "" || vp.tolerations == nil {
		return scheduling, gang.Verdict{}
	}
	now := vp.ledger.QueueOfGroup(g)
	queues := sets.New(now)
	if placed != "" {
		queues.Insert(placed)
	}
	if vp.runs.Current(g, vp.clock.Now()).Sealed.MixedQueues {
		for _, pod := range vp.index.Lister.Members(g.Key).Assigned {
			if queue := gang.QueueInSeal(pod); queue != "" {
				queues.Insert(queue)
			}
		}
	}
	var maxima []gang.Maximum
	for _, queue := range sets.List(queues) {
		maxima = append(maxima, vp.quotas.MaximumOf(queue))
	}
	return g.VictimPriority(scheduling, vp.tolerations.ValueOf, maxima...)
}

// falls describes groups whose priority as potential victims has fallen. The field from is the
// lowest priority of preemptors that may now evict any of these groups. It is valid only if the
// field any is true. The main loop retries the preemptors at its next tick.
type falls struct {
	any  bool
	from int32
}

// Follow records the priority of a group as a potential victim. g is nil for a deleted group. If
// the priority of a group with placed members has fallen, preemptors are retried at the next tick;
// see falls.
func (vp *Priorities) Follow(key types.NamespacedName, g *gang.Group) {
	vp.raising.Lock()
	defer vp.raising.Unlock()
	if from, fell := vp.record(key, g); fell && len(vp.index.Lister.Members(key).Assigned) > 0 {
		if vp.fallen.any {
			from = min(from, vp.fallen.from)
		}
		vp.fallen = falls{any: true, from: from}
		vp.engine.Look()
	}
}

// record records the priority of a group as a potential victim. If it has fallen, record returns
// true and the lowest priority of preemptors that may now evict the group. The caller holds
// raising.
func (vp *Priorities) record(key types.NamespacedName, g *gang.Group) (from int32, fell bool) {
	if g != nil && g.PreemptionPriorityClass != "" && g.Priority != nil {
		now, verdict := vp.Of(g)
		before, known := vp.gangs.SetVictimPriority(gang.KeyOf(key), engine.VictimPriority{Priority: now, Reason: verdict.Reason})
		return now + 1, known && now < before.Priority
	}
	before, known := vp.gangs.EndVictimPriority(gang.KeyOf(key))
	if !known {
		return 0, false
	}
	now := int32(math.MinInt32)
	if g != nil {
		now, _ = vp.Of(g)
	}
	return now + 1, now < before.Priority
}

// RetryFallen retries the workloads that may now preempt groups whose priority as potential victims
// has fallen since the last call.
func (vp *Priorities) RetryFallen() {
	vp.raising.Lock()
	fallen := vp.fallen
	vp.fallen = falls{}
	vp.raising.Unlock()
	if fallen.any {
		vp.retries.RetryFrom(fallen.from)
	}
}

// Review updates the recorded priorities of all groups with a preemptionPriorityClassName. It is
// called when a PriorityClass or a queue has changed.
func (vp *Priorities) Review() {
	for _, key := range vp.gangs.VictimPriorities() {
		if g, ok := vp.index.Groups.Group(gang.NameOf(key)); ok {
			vp.cluster.GroupChanged(g.Key)
			vp.Follow(g.Key, g)
		}
	}
}

// IsRaisedAbove reports whether an order evicts a group by priority, although the group is now
// protected. This happens if its priority as a potential victim was raised after the decision.
func (vp *Priorities) IsRaisedAbove(order *eviction.Order, g *gang.Group) bool {
	d := &order.Decision
	if g.PreemptionPriorityClass == "" {
		return false
	}
	byPriority := slices.ContainsFunc(d.Victims, func(v core.Victim) bool {
		return v.Rule == core.RuleLowerPriority && slices.ContainsFunc(v.Pods, func(p core.VictimPod) bool {
			pod := order.Victims[types.UID(p.UID)]
			return pod != nil && vp.index.GroupKeyOf(pod) == g.Key
		})
	})
	if !byPriority {
		return false
	}
	counts, _ := vp.Of(g)
	return counts >= d.Preemptor.Priority
}
