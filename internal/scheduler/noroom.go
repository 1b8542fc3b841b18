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

// noRoomCache caches decisions that found no room for single pods. The same events retry many equal
// pods, such as the replacements of victims. The cache gives them the same decision without a
// search, until a relevant change. Only scheduling cycles use it. The zero value is ready to use.
type noRoomCache struct {
	byNeeds map[equals]*noRoomDecision
}

// equals is the key of a decision: it is the same for pods that get the same decision.
type equals struct {
	needs    string
	priority int32
	never    bool
	queue    string
}

// noRoomDecision is a cached decision that found no room, with its inputs.
type noRoomDecision struct {
	decision core.Decision
	changes  snapshot.Changes
	// respected has the pods whose reservations were closed to the preemptor, with their nodes.
	// reserved has all pods with reservations.
	respected map[types.UID]string
	promised  sets.Set[types.UID]
	// tree and shares are the state of the queues.
	tree   *fairshare.Tree
	shares []fairshare.Amounts
	made   time.Time
}

const (
	// mostRefusals is the capacity of the cache. When it is full, the cache starts over.
	mostRefusals = 256
	// refusalLasts is the longest age of a cached decision, because the cache may miss a change
	// that matters.
	refusalLasts = 30 * time.Second
)

// of returns the cached decision for an equal pod, if it is still valid.
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

// add caches a decision that found no room.
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

// equalsOf returns the cache key of a pod; false for a pod that must have its own decision.
func (p *Plugin) equalsOf(pre *preemptor, v *decisionView) (equals, bool) {
	if pre.key.Gang || pre.group != nil || pre.pause != nil || len(v.own) > 0 || !p.sched.isCharged(pre) {
		return equals{}, false
	}
	needs, ok := snapshot.NeedsOf(pre.pods[0])
	return equals{needs: needs, priority: pre.priority, never: pre.never, queue: pre.queue}, ok
}

// holds reports whether a cached decision is still valid, because no change since could have freed
// room. Room may become free when a pod or a reservation ends that the decision counted on, when a
// node changes, or when a protection ends. Changes that only use more room do not matter. If the
// permitted victims depend on queues or on the surplus of gangs, any change invalidates the
// decision.
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

// queuesOf returns the state of the queues in a view; nil if there are no queues.
func queuesOf(v *decisionView) (*fairshare.Tree, []fairshare.Amounts) {
	if q := v.Cluster.Queues; q != nil {
		return q.Tree, q.Shares
	}
	return nil, nil
}

// reserved returns the other pods with reservations in a view.
func (v *decisionView) reserved() sets.Set[types.UID] {
	out := sets.New[types.UID]()
	for i := range v.promised {
		if v.promised[i].Reserved {
			out.Insert(v.promised[i].Pod.GetPod().UID)
		}
	}
	return out
}

// hasForeignFilters reports whether the profile has third-party filters or extenders, whose inputs
// are unknown here.
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
