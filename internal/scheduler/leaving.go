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

// leavingPods holds the pods that will terminate although their objects do not show that yet. These
// are the victims of evictions under way, and members that PodGroups list as disrupted. Planning
// counts these pods as gone and does not evict them again. The zero value is ready to use. It is
// safe for concurrent use.
type leavingPods struct {
	mu sync.RWMutex
	// victims holds the victims of this process by UID. It also holds deleted pods that a snapshot
	// still had.
	victims map[types.UID]*leavingVictim
	// swept is the time of the last call of sweep that did anything.
	swept time.Time
	// listed holds the members that PodGroups list as disrupted. A list counts only in the
	// namespace of the PodGroup, because its writer may have no rights in other namespaces.
	listed sets.Set[listedPod]
	// spared holds victims that keep running, although a PodGroup may still list them: the list is
	// updated later, or its update has not arrived yet.
	spared sets.Set[types.UID]
	// byGroup holds the list of disrupted members of each PodGroup.
	byGroup map[types.NamespacedName][]v1alpha1.DisruptedPod
	// overdue are pods that have been terminating for so long that planning counts them as running.
	overdue sets.Set[types.UID]
}

// listedPod identifies a member that a PodGroup lists as disrupted.
type listedPod struct {
	namespace string
	uid       types.UID
}

func listedOf(pod *corev1.Pod) listedPod { return listedPod{pod.Namespace, pod.UID} }

// leavingVictim is a victim of one or more evictions.
type leavingVictim struct {
	pod *corev1.Pod
	// evictions is the number of evictions of the pod that are under way.
	evictions int
	// over is the time when the last eviction that touched the pod ended; zero before.
	over time.Time
	// gone is the time when the deletion of the pod was first seen; zero before.
	gone time.Time
}

// lag is the assumed maximum delay of caches. For this long, a snapshot may contain a pod whose
// deletion the informer has reported, or the informer may lack the effect of an eviction.
const lag = time.Minute

// has reports whether planning must count a pod as gone, although its object may not show it.
func (l *leavingPods) has(pod *corev1.Pod) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.knows(pod)
}

// knows is like the method has. The caller holds l.mu.
func (l *leavingPods) knows(pod *corev1.Pod) bool {
	_, victim := l.victims[pod.UID]
	return victim || l.listed.Has(listedOf(pod)) && !l.spared.Has(pod.UID)
}

// takes reports whether this process is evicting a pod, or evicted it recently.
func (l *leavingPods) takes(uid types.UID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.victims[uid] != nil
}

// taken lists the pods that this process is evicting or evicted recently.
func (l *leavingPods) taken() []types.UID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Keys(l.victims))
}

// listings returns the disrupted members that each PodGroup lists.
func (l *leavingPods) listings() map[types.NamespacedName][]v1alpha1.DisruptedPod {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.byGroup)
}

// part moves the pods that will terminate from one list to another. It returns the shortened list
// and the extended list.
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

// take adds the victims of an eviction that begins.
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

// takenVictims holds the entries that one eviction has added to leavingPods, by UID. If a victim
// returns to the queue and gets another place, leavingPods drops the entry. It may then add a new
// entry for the pod.
type takenVictims map[types.UID]*leavingVictim

// over records that an eviction ended for the victims in begun. From now on, the pods or the lists
// of their PodGroups show that they terminate.
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

// sweep drops pods that were deleted so long ago that no snapshot has them. It also drops victims
// whose eviction ended more than lag ago. It returns these victims, because some of them may keep
// running although the informers are up to date. It does nothing if the last sweep was recent.
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

// spare records that an eviction ended before it touched the victims outside begun. These victims
// keep running.
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

// gone records the deletion of a pod, if the pod is a victim or a PodGroup lists it as disrupted.
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

// goneSince records the deletion of a pod, and returns the time when its deletion was first seen.
func (l *leavingPods) goneSince(uid types.UID, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.victim(uid)
	if v.gone.IsZero() {
		v.gone = now
	}
	return v.gone
}

// setOverdue makes planning count a terminating pod as running.
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

// placed drops the entry of a victim that returned to the queue and has a new place.
func (l *leavingPods) placed(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.victims, uid)
}

// list replaces the disrupted members that a PodGroup lists. It returns the members that are no
// longer listed.
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

// lists reports whether a PodGroup lists disrupted members.
func (l *leavingPods) lists(key types.NamespacedName) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.byGroup[key]) > 0
}

// members returns the members of a group as planning counts them. Members that will terminate are
// in Terminating, so no member is placed beside them. The assumed pods are read before the
// informer. So a member that is bound between the two reads is counted in any case.
func (o *placements) members(key types.NamespacedName) gang.Members {
	reserved := sets.New(typed(o.gangs.Reserved(gangKey(key)))...)
	m := o.index.lister.Members(key)
	m.Reserved = reserved
	m.Assigned, m.Terminating = o.leaving.part(m.Assigned, m.Terminating)
	return m
}

// departureOf returns whether planning counts a pod as running, terminating or overdue. A
// terminating pod is overdue if its node does not respond, a finalizer keeps it, or its grace
// period is too long.
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

// leavesLate reports whether the grace period of a terminating pod is longer than planning waits.
// Such a pod counts as usage of its queue from the beginning, because its owner may have chosen the
// period.
func (o *placements) leavesLate(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && o.index.profiles.departureLimits().cut(pod)
}

// departing returns the UIDs of the pods on nodes that terminate or are being evicted, without
// overdue pods. The usage of these pods does not count against limits.
func (b *ledger) departing() []types.UID {
	out := sets.New(slices.Concat(b.quotas.Going(), b.leaving.taken())...)
	for key, pods := range b.leaving.listings() {
		for _, p := range pods {
			if pod, err := b.index.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID && b.placements.isLeaving(pod) {
				out.Insert(p.UID)
			}
		}
	}
	return slices.DeleteFunc(out.UnsortedList(), b.leaving.isOverdue)
}

// isLeaving reports whether planning counts a pod as gone because it is terminating.
func (o *placements) isLeaving(pod *corev1.Pod) bool { return o.departureOf(pod).IsLeaving() }

// disrupted records the members that a PodGroup lists as disrupted, and handles members that are no
// longer listed.
func (ds *departures) disrupted(key types.NamespacedName, pods []v1alpha1.DisruptedPod) {
	for _, p := range ds.leaving.list(key, pods) {
		if pod, err := ds.index.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID {
			ds.stays(pod)
		}
	}
}

// sweep handles victims that keep running after their eviction ended. For example, the
// deletion of a member failed and its PodGroup was deleted. Or a pod was returned to the queue and
// was bound after all.
func (ds *departures) sweep() {
	for _, pod := range ds.leaving.sweep(ds.clock.Now()) {
		ds.stays(pod)
	}
}

// stays retries and returns the workloads that count on the end of a pod that will not terminate.
// It does nothing if the pod is terminating or gone. pod may be an old version from a snapshot.
func (ds *departures) stays(pod *corev1.Pod) []workload.Key {
	now, err := ds.index.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID || ds.placements.isLeaving(now) {
		return nil
	}
	ds.cluster.NodeChanged(pod.Spec.NodeName)
	ds.rooms.doubt(now.Spec.NodeName)
	misled := retriedBy(ds.steps.step(engine.VictimStays{Pod: string(pod.UID)}))
	// Work at its limit may count on the end of a pod on any node.
	ds.retries.atLimit(ds.quotas.LimitsOn(ds.ledger.queueOf(now)))
	if g := ds.index.gangOf(now); g != nil {
		// The pod does not terminate, so other members of its gang can be placed again.
		ds.ledger.updateGroupState(g.Key)
		ds.retries.soon(g.Key)
	}
	return misled
}
