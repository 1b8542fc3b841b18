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

// Named is the Membership of pods that name their group themselves; see the function [GroupOf].
type Named struct{}

// GroupOf is part of Membership.
func (Named) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) { return GroupOf(pod) }

// Derived is a Membership that also finds the group of a pod that does not name one. An anchor is a
// key that all pods of a group share. The fields of a pod alone determine its anchors, so informers
// can index pods by anchor before the group is known.
type Derived interface {
	Membership
	// AnchorsOf returns the anchors of a pod. The result for a pod never changes.
	AnchorsOf(pod *corev1.Pod) []string
	// Anchors returns the anchors that the pods of a group may have; none for groups that are not
	// derived.
	Anchors(key types.NamespacedName) []string
	// MayLead reports whether a pod may be a driver according to its role. The result for a pod
	// never changes.
	MayLead(pod *corev1.Pod) bool
}
