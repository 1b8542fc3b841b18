package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// departures tells those who wait for pods to go when it is worth another try: when the last of those has gone without
// whom there is no room for certain, and when the last of all has. The zero value is ready to use, and safe for
// concurrent use.
type departures struct {
	mu      sync.Mutex
	waiting map[owner]*awaitedPods
	// byPod are those who wait for a pod that has not gone.
	byPod map[types.UID]sets.Set[owner]
}

// awaitedPods are the pods that one owner waits for. Those that are needed are among those that are left.
type awaitedPods struct{ left, needed, gone sets.Set[types.UID] }

// expect records which pods are on their way out from where an owner is to go, in place of what was recorded before.
// Without those that are needed it has no room for certain; it may have some before the others have gone. Who was needed
// before still is.
func (d *departures) expect(o owner, pods []types.UID, needed sets.Set[types.UID]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before, ok := d.waiting[o]; ok {
		needed = needed.Union(before.needed)
	}
	d.drop(o)
	if len(pods) == 0 {
		return
	}
	if d.waiting == nil {
		d.waiting = make(map[owner]*awaitedPods)
		d.byPod = make(map[types.UID]sets.Set[owner])
	}
	left := sets.New(pods...)
	d.waiting[o] = &awaitedPods{left: left, needed: left.Intersection(needed), gone: sets.New[types.UID]()}
	for _, uid := range pods {
		if d.byPod[uid] == nil {
			d.byPod[uid] = sets.New[owner]()
		}
		d.byPod[uid].Insert(o)
	}
}

// waits reports whether there is somebody left who has to go first.
func (d *departures) waits(o owner) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting[o] != nil
}

// forget drops whoever waits no more.
func (d *departures) forget(o owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(o)
}

func (d *departures) drop(o owner) {
	w, ok := d.waiting[o]
	if !ok {
		return
	}
	for uid := range w.left {
		d.release(o, uid)
	}
	delete(d.waiting, o)
}

func (d *departures) release(o owner, uid types.UID) {
	if d.byPod[uid].Delete(o); d.byPod[uid].Len() == 0 {
		delete(d.byPod, uid)
	}
}

// gone records that a pod has gone, and returns those for whom it was the last one, of all or of those that are needed.
func (d *departures) gone(uid types.UID) (free []owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o := range d.byPod[uid] {
		if d.depart(o, uid) {
			free = append(free, o)
		}
	}
	return free
}

// goneFor is gone on behalf of one owner. It reports whether the owner has waited for that pod, and whether there may be
// room now: there is nobody left who is needed to go.
func (d *departures) goneFor(o owner, uid types.UID) (awaited, worthIt bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.waiting[o]
	if !ok || !w.left.Has(uid) && !w.gone.Has(uid) {
		return false, false
	}
	if w.left.Has(uid) {
		d.depart(o, uid)
	}
	return true, w.needed.Len() == 0
}

// depart reports whether the pod was the last one that the owner waits for, of all or of those that are needed.
func (d *departures) depart(o owner, uid types.UID) (last bool) {
	w := d.waiting[o]
	needed := w.needed.Has(uid)
	w.left.Delete(uid)
	w.needed.Delete(uid)
	w.gone.Insert(uid)
	d.release(o, uid)
	if w.left.Len() == 0 {
		delete(d.waiting, o)
		return true
	}
	return needed && w.needed.Len() == 0
}

// stays returns those who wait for a pod that does not go after all. They wait for nothing any more.
func (d *departures) stays(uid types.UID) (owners []owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	owners = d.byPod[uid].UnsortedList()
	for _, o := range owners {
		d.drop(o)
	}
	return owners
}
