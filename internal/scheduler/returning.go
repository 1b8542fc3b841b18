package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// returning are the members of gangs that give their places up, until a cycle has seen their nodes without them. The framework forgets
// a place once all plugins have been told, for which some of them call the API, and what a cycle has seen may be older still.
// The zero value is ready to use, and safe for concurrent use.
type returning struct {
	mu     sync.Mutex
	places map[types.UID]*givenUp
}

// givenUp is a place that a pod had.
type givenUp struct {
	// node is "" where the pod has been turned away, and is going to give its place up.
	node string
	// forgotten is true once the framework has forgotten the place.
	forgotten bool
	// awaitedBy is the gang that a cycle has been turned away of before.
	awaitedBy types.NamespacedName
}

// add records that a pod has given up its place on a node; "" for one that is going to.
func (r *returning) add(uid types.UID, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places == nil {
		r.places = make(map[types.UID]*givenUp)
	}
	if r.places[uid] == nil {
		r.places[uid] = &givenUp{}
	}
	if node != "" {
		r.places[uid].node = node
	}
}

// remove drops a pod that has another place, or that a cycle has seen to have none.
func (r *returning) remove(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.places, uid)
}

// left drops a pod that waits for no place any more. Of one that the framework has not forgotten yet, it is going to say so.
func (r *returning) left(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.places[uid]; p != nil && p.forgotten {
		delete(r.places, uid)
	}
}

// from is the node that a pod had a place on; "" for none.
func (r *returning) from(uid types.UID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.places[uid]; p != nil {
		return p.node
	}
	return ""
}

// await records that a gang is turned away because of a pod, and reports whether forgot is yet to be called for it.
func (r *returning) await(uid types.UID, gang types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[uid]
	if p == nil || p.forgotten {
		return false
	}
	p.awaitedBy = gang
	return true
}

// forgot records that the framework has forgotten where a pod was. It returns the gang for which this was the last that it waited for.
func (r *returning) forgot(uid types.UID) (lastOf types.NamespacedName, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[uid]
	if p == nil {
		return types.NamespacedName{}, false
	}
	lastOf, p.awaitedBy, p.forgotten = p.awaitedBy, types.NamespacedName{}, true
	if lastOf == (types.NamespacedName{}) {
		return lastOf, false
	}
	for _, other := range r.places {
		if other.awaitedBy == lastOf {
			return lastOf, false
		}
	}
	return lastOf, true
}

// awaitsReturn reports whether members of a gang are on their way back: turned away where they wait for the others, or with their
// places still in what this cycle has seen. The gang is tried again when they are back. A decision before would take from others what
// they are about to give back.
func (p *Plugin) awaitsReturn(key types.NamespacedName, members *gang.Members) bool {
	found, told := false, false
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) && p.hub.awaitsRejected(pod.UID, key) {
			found, told = true, true
			continue
		}
		node := p.hub.returning.from(pod.UID)
		if node == "" {
			continue
		}
		if info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node); err != nil || !snapshot.RunsOn(info, pod.UID) {
			p.hub.returning.remove(pod.UID)
			continue
		}
		found = true
		told = p.hub.returning.await(pod.UID, key) || told
	}
	if found && !told {
		// All have been forgotten since the cycle began.
		p.hub.tryReturned(key)
	}
	return found
}

// awaitsRejected has a gang wait for a member that has been turned away at Permit, and reports whether it has been. Ask only of one that
// has its place still: one that met an error before it waited there gave its place up, and may have been turned away after that.
func (o *occupancy) awaitsRejected(uid types.UID, key types.NamespacedName) bool {
	o.rejecting.Lock()
	defer o.rejecting.Unlock()
	if !o.rejected.Has(uid) {
		return false
	}
	o.returning.add(uid, "")
	return o.returning.await(uid, key)
}

// tryReturned has a gang tried again now that its members are back. Woken in its cycle, it would back off.
func (h *Hub) tryReturned(key types.NamespacedName) {
	h.waits.Gather(gangKey(key), h.clock.Now().Add(leastCacheDelay))
}
