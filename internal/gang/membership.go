package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Membership says which PodGroup a pod belongs to, if any. It must be safe for concurrent use and must not block.
type Membership interface {
	GroupOf(pod *corev1.Pod) (types.NamespacedName, bool)
}

// Named is the Membership of pods that name their group themselves; see the function [GroupOf].
type Named struct{}

// GroupOf is part of Membership.
func (Named) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) { return GroupOf(pod) }

// Derived is a Membership that knows of pods which do not name their group. Pods that may be of one group share an anchor: it
// can be told from a pod alone, so informers can have an index by it, whatever becomes known of the pod later.
type Derived interface {
	Membership
	// AnchorsOf are the anchors of a pod. They are the same for the same pod at any time.
	AnchorsOf(pod *corev1.Pod) []string
	// Anchors are those that the pods of a group may have; none for groups that are not derived.
	Anchors(key types.NamespacedName) []string
	// MayLead reports whether a pod may be a driver by the role that it has: it is the same for the
	// same pod at any time.
	MayLead(pod *corev1.Pod) bool
}
