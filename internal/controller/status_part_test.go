package controller

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestPhaseOfTree checks that the members of one group of a tree do not count for another one.
func TestPhaseOfTree(t *testing.T) {
	t.Parallel()
	part := func(name string) *gang.Tree {
		return &gang.Tree{Key: types.NamespacedName{Namespace: "ns", Name: name}, Need: 2}
	}
	tree := &gang.Group{
		Key: gang.TreeKey("ns", "tree"), MinCount: 4,
		Tree: &gang.Tree{Key: gang.TreeKey("ns", "tree"), Need: 2, Parts: []*gang.Tree{part("a"), part("b")}},
	}
	pods := func(group string, count int, phase corev1.PodPhase) []*corev1.Pod {
		out := make([]*corev1.Pod, count)
		for i := range out {
			out[i] = &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(group, i), Labels: map[string]string{v1alpha1.LabelPodGroup: group}},
				Status:     corev1.PodStatus{Phase: phase},
			}
		}
		return out
	}
	for name, tc := range map[string]struct {
		members gang.Members
		want    v1alpha1.PodGroupPhase
	}{
		"enough members of each group run": {
			members: gang.Members{Assigned: slices.Concat(pods("a", 2, corev1.PodRunning), pods("b", 2, corev1.PodRunning))}, want: v1alpha1.PodGroupRunning,
		},
		"four members run, one group lacks some": {
			members: gang.Members{Assigned: slices.Concat(pods("a", 3, corev1.PodRunning), pods("b", 1, corev1.PodRunning), pods("b", 1, corev1.PodPending))},
			want:    v1alpha1.PodGroupScheduled,
		},
		"each group has succeeded": {
			members: gang.Members{Succeeded: slices.Concat(pods("a", 2, corev1.PodSucceeded), pods("b", 2, corev1.PodSucceeded))}, want: v1alpha1.PodGroupSucceeded,
		},
		"four members have succeeded, one group lacks some": {
			members: gang.Members{Succeeded: slices.Concat(pods("a", 3, corev1.PodSucceeded), pods("b", 1, corev1.PodSucceeded))}, want: v1alpha1.PodGroupPending,
		},
	} {
		st := &v1alpha1.PodGroupStatus{Scheduled: int32(len(tc.members.Assigned))}
		if got := phaseOf(st, tree, &tc.members, tree.IsPlaced(&tc.members)); got != tc.want {
			t.Errorf("%s: phase %s, want %s", name, got, tc.want)
		}
	}
}

// TestPartsOfFlawedTree checks that a tree that gets a flaw while it runs still counts as
// scheduled. For example, the root of the tree was deleted.
func TestPartsOfFlawedTree(t *testing.T) {
	t.Parallel()
	flaw := gang.Verdict{Reason: v1alpha1.ReasonParentNotFound, Message: "the root is missing"}
	workload := &gang.Group{Key: gang.TreeKey("ns", "root"), Flaw: flaw}
	part := &gang.Group{Key: types.NamespacedName{Namespace: "ns", Name: "a"}, MinCount: 2}
	for name, tc := range map[string]struct {
		placed        int
		want          gang.Verdict
		wantScheduled bool
	}{
		"enough members": {placed: 2, want: gang.Verdict{Reason: v1alpha1.ReasonScheduled, Message: "2 members have a node; the root is missing"}, wantScheduled: true},
		"one member":     {placed: 1, want: flaw},
		"no member":      {want: flaw},
	} {
		got, scheduled := (&Status{}).partVerdict(workload, part, &gang.Members{Assigned: make([]*corev1.Pod, tc.placed)})
		if got != tc.want || scheduled != tc.wantScheduled {
			t.Errorf("%s: verdict %+v, scheduled %t, want %+v, %t", name, got, scheduled, tc.want, tc.wantScheduled)
		}
	}
}
