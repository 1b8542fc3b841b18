package scheduler

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// noRoomCache caches decisions without room for single pods. Many equal pods, such as the
// replacements of victims, are retried at the same events. They get the cached decision without a
// search, until a change that may free room. Only scheduling cycles use the cache. The zero value
// is ready to use.
type noRoomCache struct {
	byNeeds map[equals]*noRoomDecision
}

// equals is the key of a cached decision. Pods with the same key get the same decision.
type equals struct {
	needs    string
	priority int32
	never    bool
	queue    string
}

// noRoomDecision is a cached decision without room, with the state that it depends on.
type noRoomDecision struct {
	decision core.Decision
	changes  snapshot.Changes
	// respected has the reservations that excluded the preemptor: it maps each pod with such a
	// reservation to the reserved node.
	respected map[types.UID]string
	// promised are all pods with reservations.
	promised sets.Set[types.UID]
	// tree is the state of the queues at the decision.
	tree *fairshare.Tree
	// shares are the fair shares of the queues at the decision.
	shares []fairshare.Amounts
	made   time.Time
}

const (
	// mostRefusals is the maximum number of cached decisions. When it is reached, the cache is
	// cleared.
	mostRefusals = 256
	// refusalLasts is the maximum age of a cached decision, in case the cache misses a change.
	refusalLasts = 30 * time.Second
)

// of returns the cached decision for an equal pod, if it is still valid; false otherwise.
func (rs *noRoomCache) of(p *Plugin, pre *preemptor, v *decisionView) (core.Decision, bool) {
	if len(rs.byNeeds) == 0 {
		return core.Decision{}, false
	}
	key, ok := p.equalsOf(pre, v)
	if !ok {
		return core.Decision{}, false
	}
	r := rs.byNeeds[key]
	if r == nil {
		return core.Decision{}, false
	}
	if !r.holds(p, pre, v) {
		delete(rs.byNeeds, key)
		return core.Decision{}, false
	}
	return r.decision, true
}

func (rs *noRoomCache) add(p *Plugin, pre *preemptor, v *decisionView, d *core.Decision) {
	key, ok := p.equalsOf(pre, v)
	if !ok || v.LacksResource() || p.hasForeignFilters() {
		return
	}
	if rs.byNeeds == nil || len(rs.byNeeds) >= mostRefusals {
		rs.byNeeds = make(map[equals]*noRoomDecision)
	}
	r := &noRoomDecision{decision: *d, changes: p.sched.cluster.Changes(), respected: v.Respected(), promised: v.reserved(), made: p.sched.clock.Now()}
	r.tree, r.shares = queuesOf(v)
	rs.byNeeds[key] = r
}

// equalsOf returns the cache key of a pod; false for a pod whose decision must not be shared.
func (p *Plugin) equalsOf(pre *preemptor, v *decisionView) (equals, bool) {
	if pre.key.Gang || pre.group != nil || pre.pause != nil || len(v.own) > 0 || !p.sched.ledger.IsCharged(pre.queue, pre.pods) {
		return equals{}, false
	}
	needs, ok := snapshot.NeedsOf(pre.pods[0])
	return equals{needs: needs, priority: pre.priority, never: pre.never, queue: pre.queue}, ok
}

// holds reports whether a cached decision is still valid. The decision is no longer valid if a
// change may have freed room:
//
//   - A pod or a reservation that the decision counted has ended.
//   - A node has changed, or a protection has ended.
//   - Any fact in the snapshot has changed, if the permitted victims depend on queues or on the
//     surplus of gangs.
//
// Changes that only use more room do not matter.
func (r *noRoomDecision) holds(p *Plugin, pre *preemptor, v *decisionView) bool {
	now := p.sched.clock.Now()
	if now.Sub(r.made) > refusalLasts || r.decision.RetryAt != 0 && now.UnixNano() >= r.decision.RetryAt {
		return false
	}
	changes := p.sched.cluster.Changes()
	if changes.Freeing != r.changes.Freeing || !v.Respects(r.respected) {
		return false
	}
	tree, shares := queuesOf(v)
	switch {
	case r.tree != tree:
		return false
	case !core.Bounded(v.Cluster, p.input(pre, v, nil)):
		return true
	default:
		return changes == r.changes && slices.EqualFunc(r.shares, shares, slices.Equal) && (tree == nil || r.promised.Equal(v.reserved()))
	}
}

func queuesOf(v *decisionView) (*fairshare.Tree, []fairshare.Amounts) {
	if q := v.Cluster.Queues; q != nil {
		return q.Tree, q.Shares
	}
	return nil, nil
}

// reserved returns the other pods that have reservations in a view.
func (v *decisionView) reserved() sets.Set[types.UID] {
	out := sets.New[types.UID]()
	for i := range v.promised {
		if v.promised[i].Reserved {
			out.Insert(v.promised[i].Pod.GetPod().UID)
		}
	}
	return out
}

// hasForeignFilters reports whether the profile has third-party filters or extenders. Their
// decisions may depend on anything.
func (p *Plugin) hasForeignFilters() bool {
	known := sets.New(Name, names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
		names.NodeResourcesFit, names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
		names.PodTopologySpread, names.InterPodAffinity, names.DynamicResources, names.NodeDeclaredFeatures)
	if len(p.handle.Extenders()) > 0 {
		return true
	}
	plugins := p.handle.ListPlugins()
	for _, pl := range slices.Concat(plugins.PreFilter.Enabled, plugins.Filter.Enabled) {
		if !known.Has(pl.Name) {
			return true
		}
	}
	return false
}
