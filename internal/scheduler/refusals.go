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

// refusals remembers for which single pods there was no room, whatever they may take. Where many are alike, such as the
// replacements of victims, each is woken by all that happens; the next one is told the same without a search, and waits for
// the same, as long as nothing has changed that could matter to it. Only scheduling cycles use it. The zero value is ready
// to use.
type refusals struct {
	byNeeds map[equals]*refusal
}

// equals are the pods for which a decision is the same.
type equals struct {
	needs    string
	priority int32
	never    bool
	queue    string
}

// refusal is a decision that there is no room, with what it was made on.
type refusal struct {
	decision core.Decision
	changes  snapshot.Changes
	// respected are the pods to which room was left, and promised all that had been promised any.
	respected map[types.UID]string
	promised  sets.Set[types.UID]
	// tree and shares are how the queues stood.
	tree   *fairshare.Tree
	shares []fairshare.Amounts
	made   time.Time
}

const (
	// mostRefusals bounds what is remembered; past it, remembering starts over.
	mostRefusals = 256
	// refusalLasts is for how long a decision is repeated at most, should something matter of which nothing is known.
	refusalLasts = 30 * time.Second
)

// of finds the decision for a pod that an equal one was told, where it still holds.
func (rs *refusals) of(p *Plugin, pre *preemptor, v *view) (core.Decision, bool) {
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

// add remembers a decision that there is no room.
func (rs *refusals) add(p *Plugin, pre *preemptor, v *view, d *core.Decision) {
	key, ok := p.equalsOf(pre, v)
	if !ok || v.LacksResource() || p.knowsMore() {
		return
	}
	if rs.byNeeds == nil || len(rs.byNeeds) >= mostRefusals {
		rs.byNeeds = make(map[equals]*refusal)
	}
	r := &refusal{decision: *d, changes: p.hub.cluster.Changes(), respected: v.Respected(), promised: v.reserved(), made: p.hub.clock.Now()}
	r.tree, r.shares = queuesOf(v)
	rs.byNeeds[key] = r
}

// equalsOf is what a pod has in common with its equals; false for what is decided on by itself.
func (p *Plugin) equalsOf(pre *preemptor, v *view) (equals, bool) {
	if pre.key.Gang || pre.group != nil || pre.pause != nil || len(v.own) > 0 || !p.hub.isCharged(pre) {
		return equals{}, false
	}
	needs, ok := snapshot.NeedsOf(pre.pods[0])
	return equals{needs: needs, priority: pre.priority, never: pre.never, queue: pre.queue}, ok
}

// holds reports whether nothing has changed since that could make room: no pod has gone that was counted on to stay, no room
// is promised no more, no node is another one now, no protection has ended. What has come since only takes room. Where
// it depends on more than that what may be taken, because of queues or of what gangs have past minCount, nothing has changed
// at all.
func (r *refusal) holds(p *Plugin, pre *preemptor, v *view) bool {
	now := p.hub.clock.Now()
	if now.Sub(r.made) > refusalLasts || r.decision.RetryAt != 0 && now.UnixNano() >= r.decision.RetryAt {
		return false
	}
	changes := p.hub.cluster.Changes()
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

// queuesOf is how the queues stand in a view; nil where there are none.
func queuesOf(v *view) (*fairshare.Tree, []fairshare.Amounts) {
	if q := v.Cluster.Queues; q != nil {
		return q.Tree, q.Shares
	}
	return nil, nil
}

// reserved are all others that room is reserved for in a view.
func (v *view) reserved() sets.Set[types.UID] {
	out := sets.New[types.UID]()
	for i := range v.promised {
		if v.promised[i].Reserved {
			out.Insert(v.promised[i].Pod.GetPod().UID)
		}
	}
	return out
}

// knowsMore reports whether the profile has filters or extenders of others, which may go by what is not looked at here.
func (p *Plugin) knowsMore() bool {
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
