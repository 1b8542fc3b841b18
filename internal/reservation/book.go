package reservation

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Reservation is room that is set aside for a pod until the pod is assumed on the node. A
// Reservation is immutable.
type Reservation struct {
	// Pod must not be changed: any goroutine may read it once the reservation is in a Book.
	Pod  fwk.PodInfo
	UID  types.UID
	Node string
	// Place is the pod's position in the order of the decision.
	Place int
	workload.Standing
}

// IsUsedOn reports whether a NodeInfo includes the pod already.
func (r *Reservation) IsUsedOn(node fwk.NodeInfo) bool {
	return slices.ContainsFunc(node.GetPods(), func(pi fwk.PodInfo) bool { return pi.GetPod().UID == r.UID })
}

// Scheduler is the part of the scheduler that the reservations need. Its methods run without a lock
// held, on the goroutine of the caller.
type Scheduler interface {
	// Awaits reports whether a pod still waits for its place. If not, the scheduler has dropped the
	// pod, or is about to.
	Awaits(pod *corev1.Pod) bool
	// Withdraw clears the nominations of pods whose reservations ended unused, in the framework and
	// in the API.
	Withdraw(pods []*corev1.Pod)
	// Freed is called after reserved room has been released. queues are the queues whose
	// reservations shrank; the list may be empty.
	Freed(queues []string)
}

// Book holds reservations. Make one with [New]. It is safe for concurrent use. Reading the
// reservations of a node takes no lock.
type Book struct {
	scheduler Scheduler

	mu    sync.Mutex
	byKey map[workload.Key]map[types.UID]*Reservation
	keyOf map[types.UID]workload.Key
	// inOrder caches the results of Of until the reservations of the workload change. The scheduler
	// calls Of for each victim of a gang, and there may be thousands.
	inOrder map[workload.Key][]*Reservation
	// since is the time of the first call of Oldest that saw the pod's reservation. The time
	// restarts while the workload waits for victims.
	since map[types.UID]time.Time
	// byNode maps node names to []*Reservation. These slices are never changed in place.
	byNode sync.Map
	count  atomic.Int64
}

// New returns an empty Book.
func New(s Scheduler) *Book {
	return &Book{
		scheduler: s, byKey: make(map[workload.Key]map[types.UID]*Reservation), keyOf: make(map[types.UID]workload.Key),
		inOrder: make(map[workload.Key][]*Reservation), since: make(map[types.UID]time.Time),
	}
}

// Empty reports whether there are no reservations.
func (b *Book) Empty() bool { return b.count.Load() == 0 }

// Len returns the number of pods with a reservation.
func (b *Book) Len() int { return int(b.count.Load()) }

// On returns the reservations on a node. The caller must not change the slice.
func (b *Book) On(node string) []*Reservation {
	if v, ok := b.byNode.Load(node); ok {
		if all, ok := v.([]*Reservation); ok {
			return all
		}
	}
	return nil
}

// Nodes visits the nodes with reservations. The caller must not change the slices.
func (b *Book) Nodes() iter.Seq2[string, []*Reservation] {
	return func(yield func(string, []*Reservation) bool) {
		b.byNode.Range(func(node, all any) bool {
			name, ok1 := node.(string)
			reserved, ok2 := all.([]*Reservation)
			return !ok1 || !ok2 || yield(name, reserved)
		})
	}
}

// Oldest returns the age of the oldest reservation. Call it at intervals: an age counts from the
// first call that saw the pod with a reservation, on any node. Reservations of the workloads in
// waiting do not age, because victims may rightly take hours to terminate.
func (b *Book) Oldest(now time.Time, waiting sets.Set[workload.Key]) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.since, func(uid types.UID, _ time.Time) bool {
		_, ok := b.keyOf[uid]
		return !ok
	})
	var oldest time.Duration
	for uid, key := range b.keyOf {
		since, ok := b.since[uid]
		if !ok || waiting.Has(key) {
			b.since[uid] = now
			continue
		}
		oldest = max(oldest, now.Sub(since))
	}
	return oldest
}

// Has reports whether a pod has a reservation.
func (b *Book) Has(uid types.UID) bool {
	if b.Empty() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.keyOf[uid]
	return ok
}

// NodeOf returns the node of a pod's reservation, or "".
func (b *Book) NodeOf(uid types.UID) string {
	if b.Empty() {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.of(uid); r != nil {
		return r.Node
	}
	return ""
}

// KeyOf returns the workload that a pod's reservation belongs to; false if the pod has no
// reservation.
func (b *Book) KeyOf(uid types.UID) (workload.Key, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := b.keyOf[uid]
	return key, ok
}

// Keeps reports whether every one of these pods has a reservation on its given node.
func (b *Book) Keeps(nodes iter.Seq2[types.UID, string]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, node := range nodes {
		if r := b.of(uid); r == nil || r.Node != node {
			return false
		}
	}
	return true
}

// Of returns the reservations of a workload, in the order of its decision. The caller must not
// change the slice.
func (b *Book) Of(key workload.Key) []*Reservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey[key] == nil {
		return nil
	}
	out, ok := b.inOrder[key]
	if !ok {
		out = slices.SortedFunc(maps.Values(b.byKey[key]), func(x, y *Reservation) int {
			return cmp.Or(cmp.Compare(x.Place, y.Place), cmp.Compare(x.UID, y.UID))
		})
		b.inOrder[key] = out
	}
	return out
}

// Keys returns all workloads that have reservations, sorted.
func (b *Book) Keys() []workload.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.byKey), workload.Key.Compare)
}

// Yielding returns, sorted, the workloads with a reservation on one of the nodes that a preemptor
// may use. It may if its standing, priority and queue, is higher.
func (b *Book) Yielding(nodes sets.Set[string], to workload.Standing) []workload.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := sets.New[workload.Key]()
	for node := range nodes {
		for _, r := range b.On(node) {
			if !r.KeepsFrom(to) {
				found.Insert(b.keyOf[r.UID])
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), workload.Key.Compare)
}

// Below returns, sorted, the workloads in queues with a reservation that a preemptor of the given
// standing may use.
func (b *Book) Below(of workload.Standing) []workload.Key {
	if b.Empty() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []workload.Key
	for key, reserved := range b.byKey {
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

// Keep sets the reservations of a workload. It releases all earlier ones that are not among them.
func (b *Book) Keep(key workload.Key, reservations []*Reservation) {
	for _, r := range reservations {
		// The framework computes a pod's request at the first call and stores it in the PodInfo.
		// From here on, other goroutines read it.
		r.Pod.CalculateResource()
	}
	b.mu.Lock()
	old, moved := maps.Clone(b.byKey[key]), false
	for uid := range old {
		b.remove(uid)
	}
	for _, r := range reservations {
		was := old[r.UID]
		if was == nil {
			// The pod may have a reservation as part of another workload.
			was = b.of(r.UID)
		}
		moved = moved || was != nil && was.Node != r.Node
		delete(old, r.UID)
		b.remove(r.UID)
		b.add(key, r)
	}
	b.mu.Unlock()
	b.end(slices.Collect(maps.Values(old)))
	if moved {
		b.scheduler.Freed(nil)
	}
	// The pods of the decision may have stopped waiting before Keep stored their reservations. No
	// other event would release these.
	for _, r := range reservations {
		if !b.scheduler.Awaits(r.Pod.GetPod()) {
			b.ReleasePod(r.UID)
		}
	}
}

// Use ends the reservation of a pod that is assumed on a node. If the reservation was on another
// node, other workloads may use the room there.
func (b *Book) Use(uid types.UID, node string) {
	if b.Empty() {
		return
	}
	b.mu.Lock()
	r := b.of(uid)
	b.remove(uid)
	b.mu.Unlock()
	if r != nil && r.Node != node {
		b.scheduler.Freed(nil)
	}
}

// Release releases all reservations of a workload.
func (b *Book) Release(key workload.Key) { b.Keep(key, nil) }

// ReleaseFor releases all reservations of the workload that a reservation belongs to. If this
// reservation has ended or moved, the workload was planned again since the caller's check.
// ReleaseFor then does nothing and returns false.
func (b *Book) ReleaseFor(r *Reservation) bool {
	b.mu.Lock()
	if b.of(r.UID) != r {
		b.mu.Unlock()
		return false
	}
	ended := slices.Collect(maps.Values(b.byKey[b.keyOf[r.UID]]))
	for _, other := range ended {
		b.remove(other.UID)
	}
	b.mu.Unlock()
	b.end(ended)
	return true
}

// ReleasePod releases the reservations of pods.
func (b *Book) ReleasePod(pods ...types.UID) {
	b.release(pods, func(workload.Key) bool { return true })
}

// ReleaseFrom releases the reservations that pods have as part of a workload. A later reservation
// as part of another workload stays.
func (b *Book) ReleaseFrom(key workload.Key, pods ...types.UID) {
	b.release(pods, func(of workload.Key) bool { return of == key })
}

func (b *Book) release(pods []types.UID, ends func(of workload.Key) bool) {
	if b.Empty() {
		return
	}
	b.mu.Lock()
	var ended []*Reservation
	for _, uid := range pods {
		if r := b.of(uid); r != nil && ends(b.keyOf[uid]) {
			b.remove(uid)
			ended = append(ended, r)
		}
	}
	b.mu.Unlock()
	b.end(ended)
}

// end clears the nominations of reservations that ended unused, and reports the free room to the
// scheduler.
func (b *Book) end(ended []*Reservation) {
	if len(ended) == 0 {
		return
	}
	pods, queues := make([]*corev1.Pod, len(ended)), sets.New[string]()
	for i, r := range ended {
		pods[i] = r.Pod.GetPod()
		queues.Insert(r.Queue)
	}
	b.scheduler.Withdraw(pods)
	b.scheduler.Freed(queues.UnsortedList())
}

func (b *Book) of(uid types.UID) *Reservation {
	key, ok := b.keyOf[uid]
	if !ok {
		return nil
	}
	return b.byKey[key][uid]
}

func (b *Book) add(key workload.Key, r *Reservation) {
	if b.byKey[key] == nil {
		b.byKey[key] = make(map[types.UID]*Reservation)
	}
	delete(b.inOrder, key)
	b.byKey[key][r.UID] = r
	b.keyOf[r.UID] = key
	b.byNode.Store(r.Node, append(slices.Clone(b.On(r.Node)), r))
	b.count.Add(1)
}

func (b *Book) remove(uid types.UID) {
	key, ok := b.keyOf[uid]
	if !ok {
		return
	}
	r := b.byKey[key][uid]
	delete(b.inOrder, key)
	delete(b.keyOf, uid)
	delete(b.byKey[key], uid)
	if len(b.byKey[key]) == 0 {
		delete(b.byKey, key)
	}
	left := slices.DeleteFunc(slices.Clone(b.On(r.Node)), func(other *Reservation) bool { return other.UID == uid })
	if len(left) == 0 {
		b.byNode.Delete(r.Node)
	} else {
		b.byNode.Store(r.Node, left)
	}
	b.count.Add(-1)
}
