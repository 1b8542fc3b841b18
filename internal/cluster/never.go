package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// PodGroupOf returns the PodGroup that a pod is a direct member of, in a tree too; false for none.
func (r *Index) PodGroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	if r.Trees == nil {
		return r.GroupOf(pod)
	}
	return r.Trees.PodGroupOf(pod)
}

// NeverGroup returns the PodGroup with a key if its disruption mode Never may protect its members;
// false otherwise.
func (r *Index) NeverGroup(key types.NamespacedName) (*gang.Group, bool) {
	if r.Trees == nil {
		return nil, false
	}
	g, ok := r.Groups.Group(key)
	if !ok || !g.Never || r.Trees.FlawOfNever(g) != (gang.Verdict{}) {
		return nil, false
	}
	return g, true
}
