package dips

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// sharedKey names the devices of one pool that the same nodes can use.
type sharedKey struct {
	pool string
	// reach is the text of the reach of the devices.
	reach string
}

// sharedOffer is the offer of devices that are not local to the node of their ResourceSlice.
type sharedOffer struct {
	count int
	reach reach
}

// sharedOffers has the offers of all ResourceSlices without a nodeName.
type sharedOffers map[sharedKey]sharedOffer

// sharedWithdrawal is a drop of a shared offer.
type sharedWithdrawal struct {
	withdrawal
	reach reach
}

// reach is the set of nodes that can use a device: all nodes, one node, or the nodes of a selector.
// The zero value has all nodes.
type reach struct {
	node     string
	selector *corev1.NodeSelector
}

// has reports whether the reach contains a node. An invalid selector contains none.
func (r reach) has(node *corev1.Node) bool {
	if r.selector == nil {
		return r.node == "" || r.node == node.Name
	}
	selector, err := nodeaffinity.NewNodeSelector(r.selector)
	return err == nil && selector.Match(node)
}

func (r reach) String() string {
	if r.selector == nil {
		return r.node
	}
	return r.selector.String()
}

// reachOf returns the reach of a device in a ResourceSlice; false for a device that no node can
// use.
func reachOf(spec *resourceapi.ResourceSliceSpec, device *resourceapi.Device) (reach, bool) {
	node, selector, all := spec.NodeName, spec.NodeSelector, spec.AllNodes
	if ptr.Deref(spec.PerDeviceNodeSelection, false) {
		node, selector, all = device.NodeName, device.NodeSelector, device.AllNodes
	}
	r := reach{node: ptr.Deref(node, ""), selector: selector}
	return r, r.node != "" || selector != nil || ptr.Deref(all, false)
}

// sharedOffersOf returns the offers in ResourceSlices without a nodeName. Only the newest
// generation of a pool counts.
func sharedOffersOf(published []*resourceapi.ResourceSlice) sharedOffers {
	generations := make(map[string]int64)
	for _, slice := range published {
		pool := poolOf(slice)
		generations[pool] = max(generations[pool], slice.Spec.Pool.Generation)
	}
	of := make(sharedOffers)
	for _, slice := range published {
		pool := poolOf(slice)
		if slice.Spec.Pool.Generation < generations[pool] {
			continue
		}
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			r, ok := reachOf(&slice.Spec, device)
			if !ok || !isOffered(device) {
				continue
			}
			key := sharedKey{pool: pool, reach: r.String()}
			of[key] = sharedOffer{count: of[key].count + 1, reach: r}
		}
	}
	return of
}

// poolOf returns the name of a slice's pool in the offers.
func poolOf(slice *resourceapi.ResourceSlice) string {
	return fmt.Sprintf("devices %s/%s", slice.Spec.Driver, slice.Spec.Pool.Name)
}

// isOffered reports whether no taint of a device keeps new pods from it. A driver adds such a taint
// while a device is not healthy. Taints of DeviceTaintRules are set on purpose, so they count at
// once, as most taints of nodes do.
func isOffered(device *resourceapi.Device) bool {
	return !slices.ContainsFunc(device.Taints, func(taint resourceapi.DeviceTaint) bool {
		return taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
	})
}

// offeredIn returns the number of devices in a ResourceSlice that are offered.
func offeredIn(slice *resourceapi.ResourceSlice) (count int) {
	for i := range slice.Spec.Devices {
		if isOffered(&slice.Spec.Devices[i]) {
			count++
		}
	}
	return count
}

// FollowShared records a change of the shared offers.
func (d *Dips) FollowShared(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.compareShared(now)
}

// compareShared records the withdrawals of shared offers that begin or end between the last
// comparison and the present offers. The caller holds the lock.
func (d *Dips) compareShared(now time.Time) {
	if d.latestShared == nil {
		return
	}
	before, after := d.shared, d.latestShared()
	d.shared = after
	for key, w := range d.sharedWithdrawn {
		if after[key].count < w.had {
			continue
		}
		delete(d.sharedWithdrawn, key)
		for _, node := range d.reachedBy(w) {
			d.recovers(node, now)
		}
	}
	for key, offer := range before {
		if _, known := d.sharedWithdrawn[key]; !known && after[key].count < offer.count {
			d.sharedWithdrawn[key] = sharedWithdrawal{withdrawal{had: offer.count, ends: now.Add(d.lasts)}, offer.reach}
		}
	}
}

// sharedEndOf returns the time when the last withdrawal that affects a node ends; zero for none.
// The caller holds the lock.
func (d *Dips) sharedEndOf(name string) (end time.Time) {
	node := d.seen[name]
	if node == nil {
		return end
	}
	if d.latest != nil {
		_, now := d.latest(name)
		d.compareShared(now)
	}
	for _, w := range d.sharedWithdrawn {
		if w.ends.After(end) && w.reach.has(node) {
			end = w.ends
		}
	}
	return end
}

// overShared removes the withdrawals of shared offers whose time has passed. It returns the names
// of the nodes that they affect. The caller holds the lock.
func (d *Dips) overShared(now time.Time) (nodes []string) {
	for key, w := range d.sharedWithdrawn {
		if w.ends.After(now) {
			continue
		}
		delete(d.sharedWithdrawn, key)
		nodes = append(nodes, d.reachedBy(w)...)
	}
	return nodes
}

// reachedBy returns the names of the nodes that a withdrawal affects. The caller holds the lock.
func (d *Dips) reachedBy(w sharedWithdrawal) (nodes []string) {
	for name, node := range d.seen {
		if w.reach.has(node) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}
