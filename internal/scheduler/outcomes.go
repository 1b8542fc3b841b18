package scheduler

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// outcomes are the members that run no more of which it is not known yet whether they have succeeded, and count: one informer says the one
// and another the other, in any order. The zero value is ready to use, and safe for concurrent use.
type outcomes struct {
	mu sync.Mutex
	// awaited are they, by group.
	awaited map[types.NamespacedName]map[types.UID]ended
}

// ended is a member of which the outcome is awaited, for so long.
type ended struct {
	pod   *corev1.Pod
	until time.Time
}

// await has the outcome of a member awaited until then.
func (o *outcomes) await(key types.NamespacedName, pod *corev1.Pod, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.awaited == nil {
		o.awaited = make(map[types.NamespacedName]map[types.UID]ended)
	}
	if o.awaited[key] == nil {
		o.awaited[key] = make(map[types.UID]ended)
	}
	o.awaited[key][pod.UID] = ended{pod, until}
}

// known records the outcome of a member.
func (o *outcomes) known(key types.NamespacedName, uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.awaited[key], uid); len(o.awaited[key]) == 0 {
		delete(o.awaited, key)
	}
}

// of are the members of a group whose outcome is awaited.
func (o *outcomes) of(key types.NamespacedName, now time.Time) (pods []*corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, member := range o.awaited[key] {
		if member.until.After(now) {
			pods = append(pods, member.pod)
		}
	}
	return pods
}

// expire forgets those of which nothing has been heard.
func (o *outcomes) expire(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, members := range o.awaited {
		maps.DeleteFunc(members, func(_ types.UID, member ended) bool { return !member.until.After(now) })
		if len(members) == 0 {
			delete(o.awaited, key)
		}
	}
}

// drop forgets a group.
func (o *outcomes) drop(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.awaited, key)
}

// awaitOutcome has the gang of a pod keep what it is promised until it is known how the pod has ended, where that may have been by itself.
func (h *Hub) awaitOutcome(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if key, ok := h.groupOf(pod); ok {
		h.outcomes.await(key, pod, h.clock.Now().Add(gang.ShortTime))
	}
}

// membersStill are the members of a gang as they count for what it is promised already: with those whose outcome is awaited. Nothing is
// promised on the word of that. Where the outcome was heard of first, it is awaited in vain, and counts as it is.
func (h *Hub) membersStill(key types.NamespacedName) gang.Members {
	awaited := h.outcomes.of(key, h.clock.Now())
	members := h.members(key)
	for _, pod := range awaited {
		isIt := func(known *corev1.Pod) bool { return known.UID == pod.UID }
		if !slices.ContainsFunc(members.Succeeded, isIt) && !slices.ContainsFunc(members.Finished, isIt) {
			members.Succeeded = append(members.Succeeded, pod)
		}
	}
	return members
}
