package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// departures tells those who wait for pods to go when the last of theirs has gone. The zero value is ready to
// use, and safe for concurrent use.
type departures struct {
	mu      sync.Mutex
	waiting map[owner]sets.Set[types.UID]
	byPod   map[types.UID]sets.Set[owner]
}

// expect records which pods have to go before it is worth trying again, in place of what was recorded before.
func (d *departures) expect(o owner, pods []types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(o)
	if len(pods) == 0 {
		return
	}
	if d.waiting == nil {
		d.waiting = make(map[owner]sets.Set[types.UID])
		d.byPod = make(map[types.UID]sets.Set[owner])
	}
	d.waiting[o] = sets.New(pods...)
	for _, uid := range pods {
		if d.byPod[uid] == nil {
			d.byPod[uid] = sets.New[owner]()
		}
		d.byPod[uid].Insert(o)
	}
}

// forget drops whoever waits no more.
func (d *departures) forget(o owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(o)
}

func (d *departures) drop(o owner) {
	for uid := range d.waiting[o] {
		if d.byPod[uid].Delete(o); d.byPod[uid].Len() == 0 {
			delete(d.byPod, uid)
		}
	}
	delete(d.waiting, o)
}

// gone records that a pod has gone, and returns those for whom it was the last one.
func (d *departures) gone(uid types.UID) (free []owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o := range d.byPod[uid] {
		if d.waiting[o].Delete(uid); d.waiting[o].Len() == 0 {
			delete(d.waiting, o)
			free = append(free, o)
		}
	}
	delete(d.byPod, uid)
	return free
}

// awaits reports whether a pod is one of those that have to go.
func (d *departures) awaits(o owner, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting[o].Has(uid)
}
