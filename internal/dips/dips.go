package dips

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Duration is the delay before a drop in a node's offer takes effect. Such a drop affects
// allocatable resources or the offers of device and volume drivers, or is a taint that may be
// temporary. A device plugin or a driver that restarts removes its devices for some seconds, and a
// kubelet that restarts is not ready for some seconds. If the node lost its reservations in that
// time, a second set of victims would be evicted. For a node that has permanently shrunk or failed,
// the reservations are reviewed Duration later.
const Duration = 10 * time.Second

// settleTime is the time after the end of a dip that the scheduler's cache and its tracker of
// devices may need to learn of it. A decision in that time may still see the lower offer.
const settleTime = 2 * time.Second

// Dips records the dips of all nodes. A dip is a drop in allocatable resources or in the offers of
// device and volume drivers, or a temporary taint, within the last Duration. A dip ends when the
// node has recovered, when the time has passed, or when the node is deleted. Use [New] to create
// a value. It is safe for concurrent use.
type Dips struct {
	mu    sync.Mutex
	lasts time.Duration
	nodes map[string]nodeDips
	// seen has the version of each node that was compared last.
	seen map[string]*corev1.Node
	// settles has the nodes whose dips ended because they recovered, with the time until which
	// decisions may not know that.
	settles map[string]time.Time
	// latest returns the version of a node in the informer's store, and the present time. The
	// version is nil if the node does not exist. The store and the framework may have a new version
	// before the handler calls Follow. nil means that Follow reports all versions.
	latest func(name string) (*corev1.Node, time.Time)
	// published has the offers that were compared last, for the nodes in seen.
	published map[string]Offers
	// latestOffers returns the offers of a node as the informers' stores have them. If it
	// is nil, offers are not compared.
	latestOffers func(node string) Offers
	// shared has the shared offers that were compared last. sharedWithdrawn has the shared offers
	// that drivers have withdrawn. latestShared returns the present offers. If it is nil, shared
	// offers are not compared.
	shared          sharedOffers
	sharedWithdrawn map[sharedKey]sharedWithdrawal
	latestShared    func() sharedOffers
}

// nodeDips holds the dips of one node. The zero value has none.
type nodeDips struct {
	resources map[corev1.ResourceName]dip
	// taintsEnd is the time until which temporary taints do not count; zero without such taints.
	taintsEnd time.Time
	// withdrawn has the offers that device and volume drivers have withdrawn.
	withdrawn map[string]withdrawal
}

// dip is a drop of one resource of a node.
type dip struct {
	// had is the amount that the node offered before the drop.
	had  resource.Quantity
	ends time.Time
}

// mayBeTemporary reports whether a taint may end within seconds. The node controller adds such
// taints while a kubelet or a network agent restarts. Taints for pressure of memory, disk or
// processes last for minutes, because the kubelet delays their end. Other taints are set on
// purpose.
func mayBeTemporary(taint *corev1.Taint) bool {
	switch taint.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable:
		return taint.Effect != corev1.TaintEffectPreferNoSchedule
	default:
		return false
	}
}

func hasTemporaryTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return mayBeTemporary(&taint) })
}

// New returns Dips that last for [Duration].
func New() *Dips {
	return &Dips{lasts: Duration, nodes: make(map[string]nodeDips), settles: make(map[string]time.Time), seen: make(map[string]*corev1.Node), published: make(map[string]Offers), sharedWithdrawn: make(map[sharedKey]sharedWithdrawal)}
}

// Follow records an update of a node from before to after. For a new node, before has no resources
// and no taints.
func (d *Dips) Follow(before, after *corev1.Node, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[after.Name] != after {
		d.compare(before, after, now)
	}
}

// catchUp records the updates of a node that the handlers have not reported yet. The caller holds
// the lock.
func (d *Dips) catchUp(name string) {
	before := d.seen[name]
	if before == nil || d.latest == nil {
		return
	}
	after, now := d.latest(name)
	if after == nil || after.UID != before.UID {
		return
	}
	if after != before {
		d.compare(before, after, now)
	}
	d.compareOffers(name, now)
}

// compare records the dips that begin or end between two versions of a node. The caller holds the
// lock.
func (d *Dips) compare(before, after *corev1.Node, now time.Time) {
	d.seen[after.Name] = after
	of := d.nodes[after.Name]
	for name := range of.resources {
		if has, had := after.Status.Allocatable[name], of.resources[name].had; has.Cmp(had) >= 0 {
			delete(of.resources, name)
			d.recovers(after.Name, now)
		}
	}
	for name, had := range before.Status.Allocatable {
		if _, dips := of.resources[name]; dips {
			continue
		}
		if has := after.Status.Allocatable[name]; has.Cmp(had) < 0 {
			if of.resources == nil {
				of.resources = make(map[corev1.ResourceName]dip)
			}
			of.resources[name] = dip{had: had.DeepCopy(), ends: now.Add(d.lasts)}
		}
	}
	// If one temporary taint replaces another, keep the start of the first taint.
	switch {
	case !hasTemporaryTaint(after):
		if !of.taintsEnd.IsZero() {
			d.recovers(after.Name, now)
		}
		of.taintsEnd = time.Time{}
	case !hasTemporaryTaint(before):
		of.taintsEnd = now.Add(d.lasts)
	}
	d.set(after.Name, of)
	d.compareOffers(after.Name, now)
}

// recovers records that a dip of a node ends because the node has recovered. The caller holds the
// lock.
func (d *Dips) recovers(node string, now time.Time) { d.settles[node] = now.Add(settleTime) }

// set replaces the dips of a node. The caller holds the lock.
func (d *Dips) set(node string, of nodeDips) {
	if len(of.resources) == 0 && len(of.withdrawn) == 0 && of.taintsEnd.IsZero() {
		delete(d.nodes, node)
	} else {
		d.nodes[node] = of
	}
}

// Forget removes a deleted node.
func (d *Dips) Forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, node)
	delete(d.settles, node)
	delete(d.seen, node)
	delete(d.published, node)
}

// Over removes the dips whose time has passed, and returns the names of their nodes.
func (d *Dips) Over(now time.Time) (nodes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for node, of := range d.nodes {
		isOver := false
		for name := range of.resources {
			if !of.resources[name].ends.After(now) {
				delete(of.resources, name)
				isOver = true
			}
		}
		for name := range of.withdrawn {
			if !of.withdrawn[name].ends.After(now) {
				delete(of.withdrawn, name)
				isOver = true
			}
		}
		if !of.taintsEnd.IsZero() && !of.taintsEnd.After(now) {
			of.taintsEnd = time.Time{}
			isOver = true
		}
		if isOver {
			nodes = append(nodes, node)
		}
		d.set(node, of)
	}
	nodes = append(nodes, d.overShared(now)...)
	maps.DeleteFunc(d.settles, func(_ string, until time.Time) bool { return !until.After(now) })
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Without returns a node as if it had no dips: with its previous resources and without temporary
// taints. Devices and volume drivers are not part of a Node.
func (d *Dips) Without(node *corev1.Node) *corev1.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.catchUp(node.Name)
	of, dips := d.nodes[node.Name]
	if !dips {
		return node
	}
	out := node.DeepCopy()
	if out.Status.Allocatable == nil {
		out.Status.Allocatable = make(corev1.ResourceList)
	}
	for name := range of.resources {
		if has, had := out.Status.Allocatable[name], of.resources[name].had; has.Cmp(had) < 0 {
			out.Status.Allocatable[name] = had.DeepCopy()
		}
	}
	if !of.taintsEnd.IsZero() {
		out.Spec.Taints = slices.DeleteFunc(out.Spec.Taints, func(taint corev1.Taint) bool { return mayBeTemporary(&taint) })
	}
	return out
}

// EndOf returns the time when the last dip of a node ends; false for a node without dips.
func (d *Dips) EndOf(node string) (end time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endOf(node)
}

// SettlesAt returns the time until which decisions must not give up reserved room on a node. It is
// the end of the last dip, or some time after the node has recovered, because the scheduler's cache
// may not know that at once. It returns false if decisions see the node as it is.
func (d *Dips) SettlesAt(node string) (at time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, _ = d.endOf(node)
	if recovered := d.settles[node]; recovered.After(at) {
		at = recovered
	}
	return at, !at.IsZero()
}

// endOf is EndOf. The caller holds the lock.
func (d *Dips) endOf(node string) (end time.Time, ok bool) {
	d.catchUp(node)
	of := d.nodes[node]
	end = d.sharedEndOf(node)
	if of.taintsEnd.After(end) {
		end = of.taintsEnd
	}
	for _, dip := range of.resources {
		if dip.ends.After(end) {
			end = dip.ends
		}
	}
	for _, w := range of.withdrawn {
		if w.ends.After(end) {
			end = w.ends
		}
	}
	return end, !end.IsZero()
}

// ReadNodes sets the function that returns the version of a node in the informer's store, and the
// present time. Without it, Dips knows only the versions that [Dips.Follow] reports.
func (d *Dips) ReadNodes(latest func(name string) (*corev1.Node, time.Time)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latest = latest
}

// ReadOffers sets the informers' stores that have the present offers. Without it, offers are not
// compared.
func (d *Dips) ReadOffers(from Publications) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latestOffers, d.latestShared = from.of, from.shared
}

// SetDuration sets how long the dips last that begin from now on.
func (d *Dips) SetDuration(lasts time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lasts = lasts
}
