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

// Reservation is room that is kept for a pod which has not been assumed there yet. It is never
// changed.
type Reservation struct {
	// Pod is read by any goroutine once the reservation is in a Book, and must not be changed.
	Pod  fwk.PodInfo
	UID  types.UID
	Node string
	// Place is where it stands in the order of the decision that it is for.
	Place int
	workload.Standing
}

// IsUsedOn reports whether the pod is part of a NodeInfo already.
func (r *Reservation) IsUsedOn(node fwk.NodeInfo) bool {
	return slices.ContainsFunc(node.GetPods(), func(pi fwk.PodInfo) bool { return pi.GetPod().UID == r.UID })
}

// Scheduler is what reservations have to do with the scheduler around them. Its methods are called without a lock held,
// on the goroutine that has called the Book.
type Scheduler interface {
	// Awaits reports whether a pod still waits for its place. One that does not has been forgotten, or is about to be.
	Awaits(pod *corev1.Pod) bool
	// Withdraw takes back what shows, in the framework's nominations and in the API, of pods whose reservation has ended
	// without having been used.
	Withdraw(pods []*corev1.Pod)
	// Freed tells that room has been given up, and which queues have less promised with that.
	Freed(queues []string)
}

// Book keeps reservations. Make one with [New]. It is safe for concurrent use; a look at a node takes no lock.
type Book struct {
	scheduler Scheduler

	mu    sync.Mutex
	byKey map[workload.Key]map[types.UID]*Reservation
	keyOf map[types.UID]workload.Key
	// inOrder is what Of has returned for workloads whose reservations have not changed since. It is asked for each victim
	// of a gang, which may have thousands.
	inOrder map[workload.Key][]*Reservation
	// since is from when on a pod has had room reserved, wherever, and its workload waited for none to go; see Oldest.
	since map[types.UID]time.Time
	// byNode maps node names to []*Reservation that are never changed in place.
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

// Empty reports that nothing is reserved anywhere.
func (b *Book) Empty() bool { return b.count.Load() == 0 }

// Len is how many pods room is reserved for.
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

// Oldest is for how long the pod has had room reserved that has waited longest to use it, as far as that has been asked before:
// it is to be asked once in a while. Those of workloads that wait for pods to go do not age, since that may rightly take hours.
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

// Without lists those of the pods that nothing is reserved for.
func (b *Book) Without(pods iter.Seq[types.UID]) []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []types.UID
	for uid := range pods {
		if _, ok := b.keyOf[uid]; !ok {
			out = append(out, uid)
		}
	}
	return out
}

// Has reports whether room is reserved for a pod.
func (b *Book) Has(uid types.UID) bool {
	if b.Empty() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.keyOf[uid]
	return ok
}

// NodeOf is the node on which room is reserved for a pod, or "".
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

// KeyOf returns the workload for which room is reserved for a pod; false where none is.
func (b *Book) KeyOf(uid types.UID) (workload.Key, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := b.keyOf[uid]
	return key, ok
}

// Keeps reports whether room is reserved for every one of these pods, on that node.
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

// Of returns the reservations of a workload, in the order of the decision that they are for. The caller must not change the
// slice.
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

// Keys returns all workloads that have reservations.
func (b *Book) Keys() []workload.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.byKey), workload.Key.Compare)
}

// Yielding returns the workloads that have a reservation on one of the nodes and do not keep it from a standing.
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

// Below returns the workloads of queues that have reservations and do not keep them from a standing, wherever these are.
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

// Keep reserves exactly this room for a workload. What it had besides goes to others.
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
			// It may have been promised room as a part of something else.
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
	// A pod that has left since the decision had nothing to give up then.
	for _, r := range reservations {
		if !b.scheduler.Awaits(r.Pod.GetPod()) {
			b.ReleasePod(r.UID)
		}
	}
}

// Use ends the reservation of a pod that is assumed now: its node counts it. Where that is another node than the one it was promised, the
// room there goes to others.
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

// Release ends all reservations of a workload that will not use them.
func (b *Book) Release(key workload.Key) { b.Keep(key, nil) }

// ReleasePod ends the reservations of pods that will not use them.
func (b *Book) ReleasePod(pods ...types.UID) {
	b.release(pods, func(workload.Key) bool { return true })
}

// ReleaseFrom ends what pods have been promised as part of a workload. What they have been promised since as part of another one stays.
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

// end takes back what shows of reservations that have not been used, and tells of the room.
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
