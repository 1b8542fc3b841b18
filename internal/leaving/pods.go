package leaving

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Pods holds the pods that will terminate although their objects do not show that yet. These are
// the victims of evictions under way, and members that PodGroups list as disrupted. Planning counts
// these pods as gone and does not evict them again. The zero value is ready to use. It is safe for
// concurrent use.
type Pods struct {
	mu sync.RWMutex
	// victims holds the victims of this process by UID. It also holds pods that are deleted
	// although the snapshot of a cycle still had them.
	victims map[types.UID]*victim
	// swept is the time of the last call of Sweep that was not skipped.
	swept time.Time
	// listed holds the members that PodGroups list as disrupted. A list counts only in the
	// namespace of the PodGroup, because its writer may have no rights in other namespaces.
	listed sets.Set[listedPod]
	// spared holds victims that keep running. A PodGroup may still list them, because the list is
	// updated later or the update has not arrived yet.
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

// victim is a victim of one or more evictions.
type victim struct {
	pod *corev1.Pod
	// evictions is the number of evictions of the pod that are under way.
	evictions int
	// over is the time when the last eviction that touched the pod ended; zero before.
	over time.Time
	// gone is the time when the deletion of the pod was first seen; zero before.
	gone time.Time
}

// Lag is the assumed maximum delay of caches. For this long, a snapshot may contain a pod whose
// deletion the informer has reported, or the informer may lack the effect of an eviction.
const Lag = time.Minute

// Has reports whether planning must count a pod as gone, although its object may not show it.
func (l *Pods) Has(pod *corev1.Pod) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.knows(pod)
}

// knows is like Has, for callers that hold the lock mu.
func (l *Pods) knows(pod *corev1.Pod) bool {
	_, victim := l.victims[pod.UID]
	return victim || l.listed.Has(listedOf(pod)) && !l.spared.Has(pod.UID)
}

// Takes reports whether this process is evicting a pod, or evicted it recently.
func (l *Pods) Takes(uid types.UID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.victims[uid] != nil
}

// Taken lists the pods that this process is evicting or evicted recently.
func (l *Pods) Taken() []types.UID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Keys(l.victims))
}

// Listings returns the disrupted members that each PodGroup lists.
func (l *Pods) Listings() map[types.NamespacedName][]v1alpha1.DisruptedPod {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.byGroup)
}

// Part divides a list: it moves the pods that will terminate to the end of a second list. It
// returns the shortened first list and the extended second list.
func (l *Pods) Part(pods, leaving []*corev1.Pod) (stay, leave []*corev1.Pod) {
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

// Take adds the victims of an eviction that begins.
func (l *Pods) Take(victims map[types.UID]*corev1.Pod) Taken {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := make(Taken, len(victims))
	for uid, pod := range victims {
		v := l.victim(uid)
		v.pod = pod
		v.evictions++
		taken[uid] = v
		l.spared.Delete(uid)
	}
	return taken
}

// Taken holds the entries that one eviction has added to Pods, by UID. If a victim returns to the
// queue and gets another place, Pods drops the entry. A later eviction adds a new entry.
type Taken map[types.UID]*victim

// Over records that an eviction ended for the victims whose UIDs are in the set begun. From now on,
// these pods themselves, or the lists of their PodGroups, show that the pods terminate.
func (l *Pods) Over(taken Taken, begun sets.Set[types.UID], now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, v := range taken {
		if begun.Has(uid) && l.victims[uid] == v {
			v.evictions--
			v.over = now
		}
	}
}

// Sweep drops pods that were deleted so long ago that no snapshot has them. It also drops victims
// whose eviction ended more than Lag ago. It returns these victims, because some of them may keep
// running although the informers are up to date. It does nothing if the last sweep was recent.
func (l *Pods) Sweep(now time.Time) (over []*corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) < Lag/2 {
		return nil
	}
	l.swept = now
	maps.DeleteFunc(l.victims, func(_ types.UID, v *victim) bool {
		if v.gone.IsZero() && v.evictions <= 0 && !v.over.IsZero() && now.Sub(v.over) > Lag {
			over = append(over, v.pod)
			return true
		}
		return !v.gone.IsZero() && now.Sub(v.gone) > Lag
	})
	return over
}

func (l *Pods) victim(uid types.UID) *victim {
	if l.victims == nil {
		l.victims = make(map[types.UID]*victim)
	}
	if l.victims[uid] == nil {
		l.victims[uid] = &victim{}
	}
	return l.victims[uid]
}

// Spare records that an eviction ended. The set begun has the victims that the eviction has
// touched. All other victims keep running.
func (l *Pods) Spare(taken Taken, begun sets.Set[types.UID]) {
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

// Gone records the deletion of a pod, if the pod is a victim or a PodGroup lists it as disrupted.
func (l *Pods) Gone(pod *corev1.Pod, now time.Time) {
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

// GoneSince records the deletion of a pod, and returns the time when its deletion was first seen.
func (l *Pods) GoneSince(uid types.UID, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.victim(uid)
	if v.gone.IsZero() {
		v.gone = now
	}
	return v.gone
}

// SetOverdue makes planning count a terminating pod as running.
func (l *Pods) SetOverdue(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overdue == nil {
		l.overdue = sets.New[types.UID]()
	}
	l.overdue.Insert(uid)
}

// IsOverdue reports whether a pod was recorded as overdue and is not gone.
func (l *Pods) IsOverdue(uid types.UID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.overdue.Has(uid)
}

// Placed drops the entry of a victim that returned to the queue and has a new place.
func (l *Pods) Placed(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.victims, uid)
}

// List replaces the disrupted members that a PodGroup lists. It returns the members that are no
// longer listed.
func (l *Pods) List(key types.NamespacedName, pods []v1alpha1.DisruptedPod) (dropped []v1alpha1.DisruptedPod) {
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

// Lists reports whether a PodGroup lists disrupted members.
func (l *Pods) Lists(key types.NamespacedName) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.byGroup[key]) > 0
}
