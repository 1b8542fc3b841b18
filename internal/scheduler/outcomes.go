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

// outcomes holds the members that ended and whose result, success or failure, is not known yet.
// Until then they still count. One informer reports the end and another one the result, in any
// order. The zero value is ready to use, and safe for concurrent use.
type outcomes struct {
	mu sync.Mutex
	// awaited holds the members by group.
	awaited map[types.NamespacedName]map[types.UID]ended
}

// ended is a member with an unknown result, and the time until which the scheduler waits for the
// result.
type ended struct {
	pod   *corev1.Pod
	until time.Time
}

// await records that the result of a member is unknown. The record expires at the given time.
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

// known records that the result of a member is known.
func (o *outcomes) known(key types.NamespacedName, uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.awaited[key], uid); len(o.awaited[key]) == 0 {
		delete(o.awaited, key)
	}
}

// of returns the members of a group whose result is unknown.
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

// expire drops expired records.
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

// awaitOutcome keeps the reservations of a pod's gang until the result of the pod is known. It
// applies to a pod on a node that is not marked for deletion and has not finished: the pod may have
// ended by itself.
func (h *Hub) awaitOutcome(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if key, ok := h.groupOf(pod); ok {
		h.outcomes.await(key, pod, h.clock.Now().Add(gang.ShortTime))
	}
}

// membersStill returns the members of a gang as they count for existing reservations. Members with
// an unknown result count as succeeded. New reservations do not use this. If the result arrived
// before the end of the pod, membersStill uses that result.
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
