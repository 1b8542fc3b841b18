package scheduler

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// group returns the group of a pod, or nil where it has none or the group does not exist.
func (h *Hub) group(pod *corev1.Pod) *gang.Group {
	key, ok := h.groupOf(pod)
	if !ok {
		return nil
	}
	g, ok := h.groups.Group(key)
	if !ok {
		return nil
	}
	return g
}

// gangOf returns the gang that a pod belongs to, or nil.
func (h *Hub) gangOf(pod *corev1.Pod) *gang.Group {
	if g := h.group(pod); g != nil && g.IsGang() {
		return g
	}
	return nil
}

// ownerOf is whom decisions for a pod are for: its gang, or itself.
func (h *Hub) ownerOf(pod *corev1.Pod) owner {
	if g := h.gangOf(pod); g != nil {
		return owner{gang: true, NamespacedName: g.Key}
	}
	return owner{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
}

// reconciled reports whether a pod that named two groups names one now.
func reconciled(before, after *corev1.Pod) bool {
	return gang.Contradiction(before) != (gang.Verdict{}) && gang.Contradiction(after) == (gang.Verdict{})
}

func objectMetaOf(uid types.UID) metav1.ObjectMeta { return metav1.ObjectMeta{UID: uid} }

// priorityOf is the priority that counts for a pod: its group's, where that is resolved, else its own.
func (h *Hub) priorityOf(pod *corev1.Pod) int32 {
	if g := h.group(pod); g != nil && g.Priority != nil {
		return *g.Priority
	}
	return corev1helpers.PodPriority(pod)
}

// standingPriority is the priority by which a group may be preempted: its own or, as long as that is not known, the
// highest of its placed members. Of a group that is not known to have any, nobody takes anything.
func standingPriority(g *gang.Group, placed []*corev1.Pod) int32 {
	switch {
	case g.Priority != nil:
		return *g.Priority
	case len(placed) == 0:
		return math.MaxInt32
	}
	highest := corev1helpers.PodPriority(placed[0])
	for _, pod := range placed[1:] {
		highest = max(highest, corev1helpers.PodPriority(pod))
	}
	return highest
}

// lastScheduled is when the last of the pods was scheduled; zero where none is known to be.
func lastScheduled(pods []*corev1.Pod) time.Time {
	var last time.Time
	for _, pod := range pods {
		if at := preemptiontoleration.ScheduledAt(pod); at.After(last) {
			last = at
		}
	}
	return last
}

// placed are the members of a group that have a node, or are assumed to.
func (h *Hub) placed(key types.NamespacedName) []*corev1.Pod {
	members := h.lister.Members(key)
	out := members.Assigned
	for _, pod := range members.Pending {
		if h.assumed.has(pod.UID) {
			out = append(out, pod)
		}
	}
	return out
}

// lowestPriority is the lowest of the pods' own priorities; 0 where there are none.
func lowestPriority(pods ...*corev1.Pod) int32 {
	if len(pods) == 0 {
		return 0
	}
	lowest := corev1helpers.PodPriority(pods[0])
	for _, pod := range pods[1:] {
		lowest = min(lowest, corev1helpers.PodPriority(pod))
	}
	return lowest
}

// isGateReason tells the reasons for which members are not considered at all from those of planning.
func isGateReason(reason string) bool {
	switch reason {
	case gang.ReasonPodGroupNotFound, v1alpha1.ReasonNotEnoughMembers, v1alpha1.ReasonMixedSchedulerNames,
		v1alpha1.ReasonPriorityClassNotFound, v1alpha1.ReasonTemplateNotFound, v1alpha1.ReasonAmbiguousName,
		v1alpha1.ReasonUnsupported, v1alpha1.ReasonQueueNotFound, v1alpha1.ReasonQueueNotLeaf, v1alpha1.ReasonQueueUnusable:
		return true
	default:
		return false
	}
}
