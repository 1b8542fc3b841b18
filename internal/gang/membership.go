package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Membership finds the PodGroup that a pod belongs to, if any. It must be safe for concurrent use
// and must not block.
type Membership interface {
	GroupOf(pod *corev1.Pod) (types.NamespacedName, bool)
}

// Named is a Membership that finds only the groups that pods name themselves; see [GroupOf].
type Named struct{}

// GroupOf is part of Membership.
func (Named) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) { return GroupOf(pod) }

// Derived is a Membership that also finds the group of a pod that names none, a derived group.
// Reprieve creates derived groups from the objects that own pods, such as Jobs.
//
// An anchor is a key that all pods of a derived group share, such as the UID of an owner. Only the
// fields of a pod determine its anchors. So informers can index pods by anchor before the group is
// known.
type Derived interface {
	Membership
	// AnchorsOf returns the anchors of a pod. The result never changes during the life of the pod.
	AnchorsOf(pod *corev1.Pod) []string
	// Anchors returns the anchors that pods of a group may have; none if the group is not derived.
	Anchors(key types.NamespacedName) []string
	// MayLead reports whether the role of a pod allows it to be a driver. The result never changes
	// during the life of the pod.
	MayLead(pod *corev1.Pod) bool
}
