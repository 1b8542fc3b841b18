package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
)

func TestReplacement(t *testing.T) {
	t.Parallel()
	bare := func() *corev1.Pod { return pod("p", "", "1", 0) }
	owned := func() *corev1.Pod {
		p := bare()
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "job", Controller: ptr.To(true)}}
		return p
	}
	listed := owned()
	listed.OwnerReferences[0].Controller = nil
	peaceful := owned()
	peaceful.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	for name, tt := range map[string]struct {
		pods []*corev1.Pod
		want core.Replacement
	}{
		"a bare pod":                          {[]*corev1.Pod{bare()}, core.NoReplacement},
		"a pod of a Job":                      {[]*corev1.Pod{owned()}, core.ReplacementPreempts},
		"a pod with an owner without control": {[]*corev1.Pod{listed}, core.NoReplacement},
		"a pod that never preempts":           {[]*corev1.Pod{peaceful}, core.ReplacementWaits},
		"a group with a bare pod":             {[]*corev1.Pod{owned(), bare()}, core.NoReplacement},
		"a group, one pod never preempts":     {[]*corev1.Pod{owned(), peaceful}, core.ReplacementWaits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var unit core.Unit
			for _, p := range tt.pods {
				unit.Pods = append(unit.Pods, core.Pod{Ref: podInfo(t, p)})
			}
			v := &View{Cluster: &core.Snapshot{Units: []core.Unit{unit}}}
			if got := v.Replacement(0); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
