package dips

import (
	"maps"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// Offers counts the objects that device and volume drivers publish for one node. These are the
// devices of each pool in ResourceSlices, and the volume drivers of its CSINode. Each volume driver
// counts as one. The keys name the pool or the driver.
//
// A kubelet that restarts deletes the ResourceSlices of its node, and a volume driver that restarts
// is removed from the CSINode. Both come back within seconds, so a withdrawn offer is a dip. A
// driver may also taint a device for some seconds, so a tainted device is withdrawn too.
// [sharedOffers] has the devices of ResourceSlices without a nodeName.
type Offers map[string]int

// withdrawal is a drop of one offer.
type withdrawal struct {
	// had is the count before the drop.
	had  int
	ends time.Time
}

// offersOf returns the offers in the ResourceSlices and the CSINode of one node. csi may be nil.
// Only the newest generation of a pool counts.
func offersOf(published []*resourceapi.ResourceSlice, csi *storagev1.CSINode) Offers {
	of := make(Offers)
	generations := make(map[string]int64)
	for _, slice := range published {
		pool := poolOf(slice)
		generation, known := generations[pool]
		switch {
		case known && slice.Spec.Pool.Generation < generation:
			continue
		case known && slice.Spec.Pool.Generation > generation:
			of[pool] = 0
		}
		generations[pool] = slice.Spec.Pool.Generation
		of[pool] += offeredIn(slice)
	}
	if csi != nil {
		for _, driver := range csi.Spec.Drivers {
			of["volumes "+driver.Name] = 1
		}
	}
	return of
}

// FollowOffers records a change of the offers of a node. It ignores nodes that do not exist.
func (d *Dips) FollowOffers(node string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[node] != nil {
		d.compareOffers(node, now)
	}
}

// compareOffers records the withdrawals that begin or end between the last comparison and the
// present offers of a node. The caller holds the lock.
func (d *Dips) compareOffers(node string, now time.Time) {
	if d.latestOffers == nil {
		return
	}
	before, after := d.published[node], d.latestOffers(node)
	if maps.Equal(before, after) {
		return
	}
	d.published[node] = after
	of := d.nodes[node]
	for name, w := range of.withdrawn {
		if after[name] >= w.had {
			delete(of.withdrawn, name)
			d.recovers(node, now)
		}
	}
	for name, had := range before {
		if _, known := of.withdrawn[name]; known || after[name] >= had {
			continue
		}
		if of.withdrawn == nil {
			of.withdrawn = make(map[string]withdrawal)
		}
		of.withdrawn[name] = withdrawal{had: had, ends: now.Add(d.lasts)}
	}
	d.set(node, of)
}

// SliceNodeIndex is the index of ResourceSlices by the name of their node. Slices without a
// nodeName have the index value NoNode.
const (
	SliceNodeIndex = "reprieve.dev/node-of-slice"
	NoNode         = ""
)

// NodeOfSlice is the function of the index [SliceNodeIndex].
func NodeOfSlice(obj any) ([]string, error) {
	if slice, ok := obj.(*resourceapi.ResourceSlice); ok {
		return []string{ptr.Deref(slice.Spec.NodeName, NoNode)}, nil
	}
	return nil, nil
}

// Publications finds the offers of nodes in the informers' stores.
type Publications struct {
	// Slices has the index SliceNodeIndex; nil without dynamic resource allocation.
	Slices   cache.Indexer
	CSINodes storagelisters.CSINodeLister
}

// of returns the offers of a node.
func (p Publications) of(node string) Offers {
	// The only error of a lister is that the object does not exist.
	csi, _ := p.CSINodes.Get(node)
	return offersOf(p.slicesOf(node), csi)
}

// shared returns the offers of the ResourceSlices without a nodeName.
func (p Publications) shared() sharedOffers { return sharedOffersOf(p.slicesOf(NoNode)) }

// slicesOf returns the ResourceSlices of a node; NoNode for those without a nodeName.
func (p Publications) slicesOf(node string) (published []*resourceapi.ResourceSlice) {
	if p.Slices == nil {
		return nil
	}
	// The only error is that the index does not exist.
	found, _ := p.Slices.ByIndex(SliceNodeIndex, node)
	for _, obj := range found {
		if slice, ok := obj.(*resourceapi.ResourceSlice); ok {
			published = append(published, slice)
		}
	}
	return published
}

// NameOfCSINode returns the name of the node that a CSINode describes.
func NameOfCSINode(obj any) ([]string, error) {
	if node, ok := obj.(*storagev1.CSINode); ok {
		return []string{node.Name}, nil
	}
	return nil, nil
}
