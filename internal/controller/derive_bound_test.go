package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// TestHugeMinCount checks an object that needs more pods than an int32 holds. The minCount of its
// PodGroup must not overflow to a small number.
func TestHugeMinCount(t *testing.T) {
	t.Parallel()
	g := grouping.Group{MinCount: 1<<32 + 1, Owner: theJob}
	members := listed{Pending: []*corev1.Pod{classed("a", "low", 5)}}
	all := members.Members(types.NamespacedName{})
	pg, err := NewDerivedPodGroup(&Derivation{Key: types.NamespacedName{Namespace: "ns", Name: "g"}, Group: g, Members: &all, Tree: &all}, func(*corev1.Pod) string { return "" }, classesOf(t, map[string]int32{"low": 5}))
	if err == nil && pg.Spec.SchedulingPolicy.Gang.MinCount < 1<<31-1 {
		t.Errorf("the PodGroup of an object that needs %d pods has minCount %d", g.MinCount, pg.Spec.SchedulingPolicy.Gang.MinCount)
	}
}
