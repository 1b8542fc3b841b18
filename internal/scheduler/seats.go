package scheduler

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/scheduling"
)

// seat is room that is kept for a pod which has not been assumed there yet.
type seat struct {
	pod  fwk.PodInfo
	uid  types.UID
	node string
	rank
}

// rank is how somebody stands who has been promised room, or wants some.
type rank struct {
	// priority is the one that counts: the group's, where there is one.
	priority int32
	// queue is the name of the leaf queue, "" for none.
	queue string
}

// keepsFrom reports whether what one has been promised is not free for another. Between queues priority does not
// count: what one has reclaimed would go to the other that it was taken from, and so on in turns.
func (r rank) keepsFrom(other rank) bool {
	if r.queue != "" && other.queue != "" && r.queue != other.queue && other.priority < scheduling.SystemCriticalPriority {
		return true
	}
	return r.priority >= other.priority
}

// seatMap keeps the seats of all plans and nominations, because the framework's own nominations do not keep
// them well enough: they are lost when an event about the pod arrives after the planning, and they go by the
// pods' own priority. The zero value is ready to use. It is safe for concurrent use; a look at a node takes
// no lock.
type seatMap struct {
	mu      sync.Mutex
	byOwner map[owner]map[types.UID]*seat
	ownerOf map[types.UID]owner
	// byNode maps node names to []*seat that are never changed in place.
	byNode sync.Map
	count  atomic.Int64
	// freed counts how often seats were given up without having been used.
	freed atomic.Uint64
}

// owner is whom a decision is for: a gang or a single pod.
type owner struct {
	gang bool
	types.NamespacedName
}

// empty reports that no seat is kept anywhere.
func (m *seatMap) empty() bool { return m.count.Load() == 0 }

// on returns the seats that are kept on a node. The caller must not change the slice.
func (m *seatMap) on(node string) []*seat {
	if v, ok := m.byNode.Load(node); ok {
		if seats, ok := v.([]*seat); ok {
			return seats
		}
	}
	return nil
}

// each visits the nodes with seats. The visitor must not change the slices.
func (m *seatMap) each(visit func(node string, seats []*seat)) {
	m.byNode.Range(func(node, seats any) bool {
		name, ok1 := node.(string)
		kept, ok2 := seats.([]*seat)
		if ok1 && ok2 {
			visit(name, kept)
		}
		return true
	})
}

// without lists those of the pods that no seat is kept for.
func (m *seatMap) without(pods iter.Seq[types.UID]) []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []types.UID
	for uid := range pods {
		if _, ok := m.ownerOf[uid]; !ok {
			out = append(out, uid)
		}
	}
	return out
}

// nodeOf returns the node where a seat is kept for a pod.
func (m *seatMap) nodeOf(uid types.UID) (string, bool) {
	if m.empty() {
		return "", false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.byOwner[m.ownerOf[uid]][uid]; s != nil {
		return s.node, true
	}
	return "", false
}

// has reports whether a seat is kept for a pod.
func (m *seatMap) has(uid types.UID) bool {
	_, ok := m.nodeOf(uid)
	return ok
}

// keeps reports whether there is a seat for every one of these pods, on that node.
func (m *seatMap) keeps(nodes map[types.UID]string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, node := range nodes {
		if s := m.byOwner[m.ownerOf[uid]][uid]; s == nil || s.node != node {
			return false
		}
	}
	return true
}

// of returns the seats of an owner, in no particular order.
func (m *seatMap) of(o owner) []*seat {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.byOwner[o]))
}

// owners returns all who have seats.
func (m *seatMap) owners() []owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.byOwner))
}

// yielding returns the owners that have a seat on one of the nodes and do not keep it from somebody.
func (m *seatMap) yielding(nodes sets.Set[string], to rank) []owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := sets.New[owner]()
	for node := range nodes {
		for _, s := range m.on(node) {
			if !s.keepsFrom(to) {
				found.Insert(m.ownerOf[s.uid])
			}
		}
	}
	return found.UnsortedList()
}

// replace keeps exactly these seats for an owner. It reports whether room was given up by that.
func (m *seatMap) replace(o owner, seats []*seat) (gaveUp bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := maps.Clone(m.byOwner[o])
	for uid := range old {
		m.remove(uid)
	}
	for _, s := range seats {
		m.remove(s.uid)
		m.add(o, s)
		if was := old[s.uid]; was != nil && was.node == s.node {
			delete(old, s.uid)
		}
	}
	if len(old) > 0 {
		m.freed.Add(1)
	}
	return len(old) > 0
}

// take drops the seat of a pod that is assumed now.
func (m *seatMap) take(uid types.UID) {
	if m.empty() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(uid)
}

// giveUp drops the seat of a pod that will not use it. It reports whether there was one.
func (m *seatMap) giveUp(uid types.UID) bool {
	if m.empty() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.remove(uid) {
		return false
	}
	m.freed.Add(1)
	return true
}

func (m *seatMap) add(o owner, s *seat) {
	if m.byOwner == nil {
		m.byOwner = make(map[owner]map[types.UID]*seat)
		m.ownerOf = make(map[types.UID]owner)
	}
	if m.byOwner[o] == nil {
		m.byOwner[o] = make(map[types.UID]*seat)
	}
	m.byOwner[o][s.uid] = s
	m.ownerOf[s.uid] = o
	m.byNode.Store(s.node, append(slices.Clone(m.on(s.node)), s))
	m.count.Add(1)
}

func (m *seatMap) remove(uid types.UID) bool {
	o, ok := m.ownerOf[uid]
	if !ok {
		return false
	}
	s := m.byOwner[o][uid]
	delete(m.ownerOf, uid)
	delete(m.byOwner[o], uid)
	if len(m.byOwner[o]) == 0 {
		delete(m.byOwner, o)
	}
	left := slices.DeleteFunc(slices.Clone(m.on(s.node)), func(other *seat) bool { return other.uid == uid })
	if len(left) == 0 {
		m.byNode.Delete(s.node)
	} else {
		m.byNode.Store(s.node, left)
	}
	m.count.Add(-1)
	return true
}
