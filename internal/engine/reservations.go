package engine

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Reservation is room that is set aside for a pod until the pod is assumed on a node. A Reservation
// is immutable.
type Reservation struct {
	// Pod is the caller's object for the pod. The engine stores it and does not read it.
	Pod  any
	UID  UID
	Node string
	// Place is the pod's position in the decision's order of pods.
	Place int
	workload.Standing
}

// Reservations has the reservations of all workloads. It is a part of an [Engine].
//
// A reservation begins with a decision ([Reserves]). It ends when the pod is assumed or bound
// ([PodAssumes], [PodBinds]), when the pod is gone ([PodLeaves]), or when it is released. No room
// is reserved for a pod that is not present.
//
// Reading the reservations of a node takes no lock.
type Reservations struct {
	*store
	byKey map[workload.Key]map[UID]*Reservation
	keyOf map[UID]workload.Key
	// inOrder caches the results of Of by workload. An entry is dropped when the reservations of
	// the workload change. The scheduler calls Of once for each victim of a gang, and a gang may
	// have thousands of victims.
	inOrder map[workload.Key][]*Reservation
	// since maps pods to the time when the age of their reservations began; see
	// [Reservations.Oldest].
	since map[UID]time.Time
	// byNode maps node names to reservations ([]*Reservation). A change stores a new slice, so
	// readers need no lock.
	byNode sync.Map
	length atomic.Int64
}

func newReservations(s *store) *Reservations {
	return &Reservations{
		store: s, byKey: make(map[workload.Key]map[UID]*Reservation), keyOf: make(map[UID]workload.Key),
		inOrder: make(map[workload.Key][]*Reservation), since: make(map[UID]time.Time),
	}
}

// Empty reports whether there are no reservations.
func (rs *Reservations) Empty() bool { return rs.length.Load() == 0 }

// Len returns the number of pods with a reservation.
func (rs *Reservations) Len() int { return int(rs.length.Load()) }

// On returns the reservations on a node. The caller must not change the slice.
func (rs *Reservations) On(node string) []*Reservation {
	if v, ok := rs.byNode.Load(node); ok {
		if all, ok := v.([]*Reservation); ok {
			return all
		}
	}
	return nil
}

// Nodes iterates over the nodes with reservations. The caller must not change the slices.
func (rs *Reservations) Nodes() iter.Seq2[string, []*Reservation] {
	return func(yield func(string, []*Reservation) bool) {
		rs.byNode.Range(func(node, all any) bool {
			name, ok1 := node.(string)
			reserved, ok2 := all.([]*Reservation)
			return !ok1 || !ok2 || yield(name, reserved)
		})
	}
}

// Oldest returns the age of the oldest reservation. Call it at intervals: the age counts from the
// first call that saw the pod with a reservation, on any node. The reservations of a workload do
// not age while it waits for victims, because victims may take hours to terminate.
func (rs *Reservations) Oldest(now time.Time) time.Duration {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	maps.DeleteFunc(rs.since, func(uid UID, _ time.Time) bool {
		_, ok := rs.keyOf[uid]
		return !ok
	})
	var oldest time.Duration
	for uid, key := range rs.keyOf {
		since, ok := rs.since[uid]
		if !ok || rs.records[key].waitsForVictims() {
			rs.since[uid] = now
			continue
		}
		oldest = max(oldest, now.Sub(since))
	}
	return oldest
}

// Has reports whether a pod has a reservation.
func (rs *Reservations) Has(pod UID) bool {
	if rs.Empty() {
		return false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	_, ok := rs.keyOf[pod]
	return ok
}

// NodeOf returns the node of a pod's reservation, or "".
func (rs *Reservations) NodeOf(pod UID) string {
	if rs.Empty() {
		return ""
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.of(pod); r != nil {
		return r.Node
	}
	return ""
}

// KeyOf returns the workload that a pod's reservation is part of: the pod or its gang. It returns
// false if the pod has no reservation.
func (rs *Reservations) KeyOf(pod UID) (workload.Key, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	key, ok := rs.keyOf[pod]
	return key, ok
}

// Keeps reports whether each of these pods has a reservation on the node given for the pod.
func (rs *Reservations) Keeps(nodes iter.Seq2[UID, string]) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for uid, node := range nodes {
		if r := rs.of(uid); r == nil || r.Node != node {
			return false
		}
	}
	return true
}

// Of returns the reservations of a workload, in the order of its decision. The caller must not
// change the slice.
func (rs *Reservations) Of(key workload.Key) []*Reservation {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byKey[key] == nil {
		return nil
	}
	out, ok := rs.inOrder[key]
	if !ok {
		out = slices.SortedFunc(maps.Values(rs.byKey[key]), func(x, y *Reservation) int {
			return cmp.Or(cmp.Compare(x.Place, y.Place), cmp.Compare(x.UID, y.UID))
		})
		rs.inOrder[key] = out
	}
	return out
}

// Keys returns all workloads that have reservations, sorted.
func (rs *Reservations) Keys() []workload.Key {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.SortedFunc(maps.Keys(rs.byKey), workload.Key.Compare)
}

// Yielding returns the workloads, sorted, that have a reservation on one of the nodes and must
// yield it to a preemptor of the given standing. A standing is a priority and a queue.
func (rs *Reservations) Yielding(nodes iter.Seq[string], to workload.Standing) []workload.Key {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	found := make(map[workload.Key]struct{})
	for node := range nodes {
		for _, r := range rs.On(node) {
			if !r.KeepsFrom(to) {
				found[rs.keyOf[r.UID]] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), workload.Key.Compare)
}

// Below returns the workloads in queues, sorted, that have a reservation and must yield it to a
// preemptor of the given standing.
func (rs *Reservations) Below(of workload.Standing) []workload.Key {
	if rs.Empty() {
		return nil
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var out []workload.Key
	for key, reserved := range rs.byKey {
		for _, r := range reserved {
			if r.Queue != "" && !r.KeepsFrom(of) {
				out = append(out, key)
				break
			}
		}
	}
	slices.SortFunc(out, workload.Key.Compare)
	return out
}

// replace replaces the reservations of a workload, and returns the reservations that ended. changed
// is true if a pod that still has a reservation now has it on another node or with another
// standing. The caller holds the lock.
func (rs *Reservations) replace(key workload.Key, reservations []*Reservation) (ended []*Reservation, changed bool) {
	old := maps.Clone(rs.byKey[key])
	for uid := range old {
		rs.remove(uid)
	}
	for _, r := range reservations {
		if _, present := rs.pods[r.UID]; !present {
			// The pod may have been deleted while the decision was made.
			ended = append(ended, r)
			continue
		}
		was := old[r.UID]
		if was == nil {
			// A pod that has changed its group may still have a reservation as part of its old
			// workload.
			was = rs.of(r.UID)
		}
		changed = changed || was != nil && (was.Node != r.Node || was.Standing != r.Standing)
		delete(old, r.UID)
		rs.remove(r.UID)
		rs.add(key, r)
	}
	return append(ended, slices.SortedFunc(maps.Values(old), byUID)...), changed
}

// release drops the reservations of pods, and returns them. It drops a reservation only if ends
// returns true for the workload of the reservation. The caller holds the lock.
func (rs *Reservations) release(pods []UID, ends func(of workload.Key) bool) (ended []*Reservation) {
	if rs.Empty() {
		return nil
	}
	for _, uid := range pods {
		if r := rs.of(uid); r != nil && ends(rs.keyOf[uid]) {
			rs.remove(uid)
			ended = append(ended, r)
		}
	}
	return ended
}

// use ends the reservation of a pod that is assumed or bound on a node. It reports whether the
// reservation was on a different node. The caller holds the lock.
func (rs *Reservations) use(pod UID, node string) (elsewhere bool) {
	if rs.Empty() {
		return false
	}
	r := rs.of(pod)
	rs.remove(pod)
	return r != nil && r.Node != node
}

func byUID(x, y *Reservation) int { return cmp.Compare(x.UID, y.UID) }

func (rs *Reservations) of(pod UID) *Reservation {
	key, ok := rs.keyOf[pod]
	if !ok {
		return nil
	}
	return rs.byKey[key][pod]
}

func (rs *Reservations) add(key workload.Key, r *Reservation) {
	if rs.byKey[key] == nil {
		rs.byKey[key] = make(map[UID]*Reservation)
	}
	delete(rs.inOrder, key)
	rs.byKey[key][r.UID] = r
	rs.keyOf[r.UID] = key
	rs.byNode.Store(r.Node, append(slices.Clone(rs.On(r.Node)), r))
	rs.length.Add(1)
}

func (rs *Reservations) remove(pod UID) {
	key, ok := rs.keyOf[pod]
	if !ok {
		return
	}
	r := rs.byKey[key][pod]
	delete(rs.inOrder, key)
	delete(rs.keyOf, pod)
	delete(rs.byKey[key], pod)
	if len(rs.byKey[key]) == 0 {
		delete(rs.byKey, key)
	}
	left := slices.DeleteFunc(slices.Clone(rs.On(r.Node)), func(other *Reservation) bool { return other.UID == pod })
	if len(left) == 0 {
		rs.byNode.Delete(r.Node)
	} else {
		rs.byNode.Store(r.Node, left)
	}
	rs.length.Add(-1)
}
