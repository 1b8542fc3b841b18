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
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// leavingPods holds the pods that will terminate although their objects do not show it yet. These
// are the victims of evictions under way, and the members that PodGroups list as disrupted, by any
// process. Planning counts them as gone and does not evict them again. The zero value is ready to
// use, and safe for concurrent use.
type leavingPods struct {
	mu sync.RWMutex
	// victims has the victims of evictions by this process, and deleted pods that a snapshot still
	// had. swept is the time of the last sweep.
	victims map[types.UID]*leavingVictim
	swept   time.Time
	// listed has the members that PodGroups list, and byGroup has the lists. A list counts only in
	// its own namespace, because its writer may have no rights in others.
	listed sets.Set[listedPod]
	// spared has victims that keep running although a PodGroup may still list them. The list may be
	// updated late, or the scheduler may see the update late.
	spared  sets.Set[types.UID]
	byGroup map[types.NamespacedName][]v1alpha1.DisruptedPod
	// overdue are pods that have been terminating for so long that planning counts them as running.
	overdue sets.Set[types.UID]
}

// listedPod is a pod on the list of a PodGroup.
type listedPod struct {
	namespace string
	uid       types.UID
}

func listedOf(pod *corev1.Pod) listedPod { return listedPod{pod.Namespace, pod.UID} }

// leavingVictim is a victim of evictions.
type leavingVictim struct {
	pod *corev1.Pod
	// evictions is the number of evictions under way. over is the end of the last eviction that
	// touched the pod; zero before.
	evictions int
	over      time.Time
	// gone is the time when the pod was deleted; zero before.
	gone time.Time
}

// lag is the longest delay of caches. For this long, the scheduler's snapshot may contain a pod
// that its informer has seen deleted. For the same time, the informer may not show the effect of an
// eviction.
const lag = time.Minute

// has reports whether a pod will terminate, although its object may not show it.
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

// takes reports whether this process is evicting a pod or has just evicted it.
func (l *leavingPods) takes(uid types.UID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.victims[uid] != nil
}

// taken lists the pods that this process is evicting or has just evicted.
func (l *leavingPods) taken() []types.UID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Keys(l.victims))
}

// listings returns the disrupted members that PodGroups list.
func (l *leavingPods) listings() map[types.NamespacedName][]v1alpha1.DisruptedPod {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.byGroup)
}

// part moves the pods that will terminate from the list pods to the list leaving.
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

// takenVictims are the victims of one eviction. A victim may be returned to the queue and get a new
// place. leavingPods then has another entry for it, or none.
type takenVictims map[types.UID]*leavingVictim

// over records the end of an eviction for the victims that it touched. From now on, the pods
// themselves or the list of their group show that they terminate.
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

// sweep drops pods that were deleted so long ago that no snapshot has them. It also drops and
// returns victims whose eviction ended more than lag ago, because the informers are up to date by
// now. Some of them may keep running. It does nothing if the last sweep was recent.
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

// spare records that an eviction ends before it has touched some of its victims, so these keep
// running.
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

// gone records that a pod has been deleted, if the pod is a victim or a PodGroup lists it as a pod
// to evict.
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

// goneSince records that a pod was deleted, and returns the time when the scheduler first saw that.
func (l *leavingPods) goneSince(uid types.UID, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.victim(uid)
	if v.gone.IsZero() {
		v.gone = now
	}
	return v.gone
}

// setOverdue records that planning counts a terminating pod as running.
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

// placed drops a victim that was returned to the queue and has a place again.
func (l *leavingPods) placed(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.victims, uid)
}

// list records the members that a PodGroup lists, and returns the members that it does not list any
// more.
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

// lists reports whether a PodGroup lists members.
func (l *leavingPods) lists(key types.NamespacedName) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.byGroup[key]) > 0
}

// members returns the members of a group as planning counts them. A pod that will terminate counts
// as terminating, so no member is placed next to it. The assumed pods are read before the informer,
// so a member that is bound meanwhile counts as placed in any case.
func (o *placements) members(key types.NamespacedName) gang.Members {
	reserved := sets.New(typed(o.gangs.Reserved(gangKey(key)))...)
	m := o.lister.Members(key)
	m.Reserved = reserved
	m.Assigned, m.Terminating = o.leaving.part(m.Assigned, m.Terminating)
	return m
}

// departureOf returns whether planning counts a pod as running, terminating or overdue. A deleted
// pod may be overdue because its node does not respond, because of a finalizer, or because its
// grace period is too long.
func (o *placements) departureOf(pod *corev1.Pod) snapshot.Departure {
	switch {
	case pod.DeletionTimestamp != nil && o.leaving.isOverdue(pod.UID):
		return snapshot.Overdue
	case o.leavesLate(pod):
		return snapshot.LeavesLate
	case pod.DeletionTimestamp != nil || o.leaving.has(pod):
		return snapshot.Leaves
	default:
		return snapshot.Stays
	}
}

// leavesLate reports whether a pod on a node is terminating with a longer grace period than
// planning waits for. Its owner may have chosen the period, so the pod counts in its queue from the
// start.
func (o *placements) leavesLate(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && o.profiles.departureLimits().cut(pod)
}

// departing returns the terminating pods on nodes. Their usage does not count against limits.
func (b *ledger) departing() []types.UID {
	out := sets.New(slices.Concat(b.quotas.Going(), b.leaving.taken())...)
	for key, pods := range b.leaving.listings() {
		for _, p := range pods {
			if pod, err := b.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID && b.isLeaving(pod) {
				out.Insert(p.UID)
			}
		}
	}
	return slices.DeleteFunc(out.UnsortedList(), b.leaving.isOverdue)
}

// isLeaving reports whether planning counts a pod as gone because it terminates.
func (o *placements) isLeaving(pod *corev1.Pod) bool { return o.departureOf(pod).IsLeaving() }

// KnowsDisruption reports whether planning already counts the pods on a PodGroup's list as gone.
// Any goroutine may call it.
func (o *placements) KnowsDisruption(key types.NamespacedName) bool { return o.leaving.lists(key) }

// disrupted records the members that a group lists as disrupted.
func (h *Scheduler) disrupted(key types.NamespacedName, pods []v1alpha1.DisruptedPod) {
	for _, p := range h.leaving.list(key, pods) {
		if pod, err := h.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID {
			h.stays(pod)
		}
	}
}

// sweepLeaving checks victims some time after their eviction. A victim may keep running although
// neither the pod nor a group's list shows that it terminates. For example, the deletion of a
// member failed and its group was deleted, or a pod was returned to the queue and bound
// nonetheless.
func (h *Scheduler) sweepLeaving() {
	for _, pod := range h.leaving.sweep(h.clock.Now()) {
		h.stays(pod)
	}
}

// stays retries all workloads that count on the end of a pod that will not terminate, and returns
// them. It does nothing if the pod does terminate or is gone. pod may be an older version from a
// snapshot.
func (h *Scheduler) stays(pod *corev1.Pod) []workload.Key {
	now, err := h.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID || h.isLeaving(now) {
		return nil
	}
	h.cluster.NodeChanged(pod.Spec.NodeName)
	h.doubt(now.Spec.NodeName)
	misled := retriedBy(h.step(engine.VictimStays{Pod: string(pod.UID)}))
	// Work at a limit counts on the end of terminating pods on any node.
	h.retryAtLimit(h.quotas.LimitsOn(h.queueOf(now)))
	if g := h.gangOf(now); g != nil {
		// Members can now be placed or bound next to the pod. That is not possible while the pod
		// terminates.
		h.updateGroupState(g.Key)
		h.retrySoon(g.Key)
	}
	return misled
}
