package scheduler

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// leavingPods are the pods that are going to leave although nothing about the pods themselves says so yet: the
// victims of evictions that are under way, and the members that PodGroups list as disrupted, by whichever
// process. Planning counts them as gone, and takes none of them again. The zero value is ready to use, and safe
// for concurrent use.
type leavingPods struct {
	mu sync.RWMutex
	// victims are those of evictions of this process, and those that a snapshot still had after they had gone. They were swept last at
	// that time.
	victims map[types.UID]*leavingVictim
	swept   time.Time
	// listed are the members that PodGroups list, and byGroup the lists. A list speaks of its own namespace only:
	// the user that writes it need not be allowed more.
	listed sets.Set[listedPod]
	// spared are victims that stay, and may still be listed: what takes that back may be slow, or the news of it.
	spared  sets.Set[types.UID]
	byGroup map[types.NamespacedName][]v1alpha1.DisruptedPod
	// overdue are those that have been terminating for so long that nothing counts on them to go.
	overdue sets.Set[types.UID]
}

// listedPod is a pod on the list of a PodGroup.
type listedPod struct {
	namespace string
	uid       types.UID
}

func listedOf(pod *corev1.Pod) listedPod { return listedPod{pod.Namespace, pod.UID} }

// leavingVictim is a pod that evictions take.
type leavingVictim struct {
	pod *corev1.Pod
	// evictions is how many are under way, and over when the last ended that has begun to take it; zero before.
	evictions int
	over      time.Time
	// gone is when it was deleted, zero before.
	gone time.Time
}

// lag is how long the scheduler's snapshot may at most go on to have a pod that its informer has seen to go, and the informer one of
// which an eviction has begun.
const lag = time.Minute

// has reports whether a pod is going to leave.
func (l *leavingPods) has(pod *corev1.Pod) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.knows(pod)
}

// knows is has for callers that hold the lock.
func (l *leavingPods) knows(pod *corev1.Pod) bool {
	_, victim := l.victims[pod.UID]
	return victim || l.listed.Has(listedOf(pod)) && !l.spared.Has(pod.UID)
}

// takes reports whether a pod is the victim of an eviction of this process.
func (l *leavingPods) takes(uid types.UID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.victims[uid] != nil
}

// taken lists the victims of evictions of this process.
func (l *leavingPods) taken() []types.UID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Keys(l.victims))
}

// listings are what PodGroups list.
func (l *leavingPods) listings() map[types.NamespacedName][]v1alpha1.DisruptedPod {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.byGroup)
}

// part moves the pods that are going to leave from one list to the other.
func (l *leavingPods) part(pods, leaving []*corev1.Pod) (stay, leave []*corev1.Pod) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.victims)+len(l.listed) == 0 {
		return pods, leaving
	}
	stay = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		if !l.knows(pod) {
			return false
		}
		leaving = append(leaving, pod)
		return true
	})
	return stay, leaving
}

// take records the victims of an eviction.
func (l *leavingPods) take(victims map[types.UID]*corev1.Pod) takenVictims {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := make(takenVictims, len(victims))
	for uid, pod := range victims {
		v := l.victim(uid)
		v.pod = pod
		v.evictions++
		taken[uid] = v
		l.spared.Delete(uid)
	}
	return taken
}

// takenVictims are the victims of one eviction. Of one that was turned back and has had a place since, it is not known any more what
// this eviction does to it.
type takenVictims map[types.UID]*leavingVictim

// over records that an eviction has ended that has begun to take victims. By now, or soon, the pods say themselves that they go, or
// the list of their group does.
func (l *leavingPods) over(taken takenVictims, begun sets.Set[types.UID], now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, v := range taken {
		if begun.Has(uid) && l.victims[uid] == v {
			v.evictions--
			v.over = now
		}
	}
}

// sweep forgets, once in a while, those that have gone for so long that no snapshot has them, and those that evictions have begun to
// take so long ago that what is known of them is all that there is to know. It returns the latter: some may stay.
func (l *leavingPods) sweep(now time.Time) (over []*corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) < lag/2 {
		return nil
	}
	l.swept = now
	maps.DeleteFunc(l.victims, func(_ types.UID, v *leavingVictim) bool {
		if v.gone.IsZero() && v.evictions <= 0 && !v.over.IsZero() && now.Sub(v.over) > lag {
			over = append(over, v.pod)
			return true
		}
		return !v.gone.IsZero() && now.Sub(v.gone) > lag
	})
	return over
}

func (l *leavingPods) victim(uid types.UID) *leavingVictim {
	if l.victims == nil {
		l.victims = make(map[types.UID]*leavingVictim)
	}
	if l.victims[uid] == nil {
		l.victims[uid] = &leavingVictim{}
	}
	return l.victims[uid]
}

// spare records that an eviction does not take those of its victims after all that it has not begun to.
func (l *leavingPods) spare(taken takenVictims, begun sets.Set[types.UID]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, v := range taken {
		if begun.Has(uid) || l.victims[uid] != v {
			continue
		}
		if v.evictions--; v.evictions <= 0 && v.gone.IsZero() && v.over.IsZero() {
			delete(l.victims, uid)
			if l.spared == nil {
				l.spared = sets.New[types.UID]()
			}
			l.spared.Insert(uid)
		}
	}
}

// gone records that a pod has been deleted, unless it is known.
func (l *leavingPods) gone(pod *corev1.Pod, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spared.Delete(pod.UID)
	l.overdue.Delete(pod.UID)
	if l.victims[pod.UID] != nil || l.listed.Has(listedOf(pod)) {
		if v := l.victim(pod.UID); v.gone.IsZero() {
			v.gone = now
		}
	}
}

// goneSince records that any pod has been deleted, and returns since when that is known.
func (l *leavingPods) goneSince(uid types.UID, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.victim(uid)
	if v.gone.IsZero() {
		v.gone = now
	}
	return v.gone
}

// setOverdue records that nothing counts on a pod to go any more.
func (l *leavingPods) setOverdue(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overdue == nil {
		l.overdue = sets.New[types.UID]()
	}
	l.overdue.Insert(uid)
}

func (l *leavingPods) isOverdue(uid types.UID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.overdue.Has(uid)
}

// placed forgets a victim that was turned back and has a place again.
func (l *leavingPods) placed(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.victims, uid)
}

// list records which members a PodGroup lists, and returns those that it lists no more.
func (l *leavingPods) list(key types.NamespacedName, pods []v1alpha1.DisruptedPod) (dropped []v1alpha1.DisruptedPod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.byGroup[key]
	if len(before) == 0 && len(pods) == 0 {
		return nil
	}
	if l.listed == nil {
		l.listed = sets.New[listedPod]()
		l.byGroup = make(map[types.NamespacedName][]v1alpha1.DisruptedPod)
	}
	for _, p := range before {
		l.listed.Delete(listedPod{key.Namespace, p.UID})
	}
	for _, p := range pods {
		l.listed.Insert(listedPod{key.Namespace, p.UID})
	}
	if len(pods) == 0 {
		delete(l.byGroup, key)
	} else {
		l.byGroup[key] = pods
	}
	for _, p := range before {
		if !l.listed.Has(listedPod{key.Namespace, p.UID}) {
			l.spared.Delete(p.UID)
			dropped = append(dropped, p)
		}
	}
	return dropped
}

// lists reports whether it is known that a PodGroup lists members.
func (l *leavingPods) lists(key types.NamespacedName) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.byGroup[key]) > 0
}

// members lists those of a group as planning counts them: a pod that is going to leave is terminating, and no member that
// others can be placed beside. A member that is bound meanwhile counts as placed in any case, by the one or the other.
func (o *occupancy) members(key types.NamespacedName) gang.Members {
	reserved := sets.New(o.registry.Reserved(key)...)
	m := o.lister.Members(key)
	m.Reserved = reserved
	m.Assigned, m.Terminating = o.leaving.part(m.Assigned, m.Terminating)
	return m
}

// departureOf says whether a pod goes, as planning counts on it. Its deletion timestamp is the end of its grace period; its
// node may not answer, or a finalizer hold it.
func (o *occupancy) departureOf(pod *corev1.Pod) snapshot.Departure {
	switch {
	case pod.DeletionTimestamp != nil && o.leaving.isOverdue(pod.UID):
		return snapshot.Overdue
	case pod.DeletionTimestamp != nil || o.leaving.has(pod):
		return snapshot.Leaves
	default:
		return snapshot.Stays
	}
}

// departing are the pods on nodes that count as gone for limits, because they are on their way out.
func (b *books) departing() []types.UID {
	out := sets.New(slices.Concat(b.board.Going(), b.leaving.taken())...)
	for key, pods := range b.leaving.listings() {
		for _, p := range pods {
			if pod, err := b.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID && b.isLeaving(pod) {
				out.Insert(p.UID)
			}
		}
	}
	return slices.DeleteFunc(out.UnsortedList(), b.leaving.isOverdue)
}

// isLeaving tells which pods count as gone, because they are on their way out.
func (o *occupancy) isLeaving(pod *corev1.Pod) bool { return o.departureOf(pod) == snapshot.Leaves }

// KnowsDisruption reports whether planning counts the members that a PodGroup lists as disrupted as gone. Any
// goroutine may call it.
func (o *occupancy) KnowsDisruption(key types.NamespacedName) bool { return o.leaving.lists(key) }

// disrupted takes over which members a group lists as disrupted.
func (h *Hub) disrupted(key types.NamespacedName, pods []v1alpha1.DisruptedPod) {
	for _, p := range h.leaving.list(key, pods) {
		if pod, err := h.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID {
			h.stays(pod)
		}
	}
}

// sweepLeaving looks again at pods that an eviction has begun to take and that live on, although neither they nor a group's list says
// any more that they go: a delete that failed for a member of a group that has been deleted since, or a pod that was turned back and
// has been bound all the same.
func (h *Hub) sweepLeaving() {
	for _, pod := range h.leaving.sweep(h.clock.Now()) {
		h.stays(pod)
	}
}

// stays has all workloads look again that count on a pod to leave, unless it does, and returns them. The pod may be as a snapshot
// has it.
func (h *Hub) stays(pod *corev1.Pod) []workload.Key {
	now, err := h.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID || h.isLeaving(now) {
		return nil
	}
	h.cluster.NodeChanged(pod.Spec.NodeName)
	h.doubt(now.Spec.NodeName)
	misled := h.waits.Stays(string(pod.UID))
	for _, key := range misled {
		h.wake(key)
	}
	// Work at a limit counts on what leaves on any node.
	h.eased(h.board.LimitsOn(h.queueOf(now)))
	if g := h.gangOf(now); g != nil {
		// Members can be placed beside it, or bound, that could not be beside one that goes.
		h.tellGroupState(g.Key)
		h.wakeSoon(g.Key)
	}
	return misled
}
