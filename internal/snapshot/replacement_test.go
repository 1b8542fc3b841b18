package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
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
	never, lower := corev1.PreemptNever, corev1.PreemptLowerPriority
	for name, tt := range map[string]struct {
		pods []*corev1.Pod
		// group is the PodGroup of the pods; nil for none. class is the preemption policy of the
		// group's PriorityClass.
		group *gang.Group
		class *corev1.PreemptionPolicy
		want  core.Replacement
	}{
		"a bare pod":                          {pods: []*corev1.Pod{bare()}, want: core.NoReplacement},
		"a pod of a Job":                      {pods: []*corev1.Pod{owned()}, want: core.ReplacementPreempts},
		"a pod with an owner without control": {pods: []*corev1.Pod{listed}, want: core.NoReplacement},
		"a pod that never preempts":           {pods: []*corev1.Pod{peaceful}, want: core.ReplacementWaits},
		"a group with a bare pod":             {pods: []*corev1.Pod{owned(), bare()}, want: core.NoReplacement},
		"a group, one pod never preempts":     {pods: []*corev1.Pod{owned(), peaceful}, want: core.ReplacementWaits},
		"a group that never preempts": {
			pods: []*corev1.Pod{owned(), owned()}, group: &gang.Group{PreemptionPolicy: never}, want: core.ReplacementWaits,
		},
		"a group that preempts, one pod never does": {
			pods: []*corev1.Pod{owned(), peaceful}, group: &gang.Group{PreemptionPolicy: lower}, want: core.ReplacementPreempts,
		},
		"a group of a class that never preempts": {
			pods: []*corev1.Pod{owned()}, group: &gang.Group{PriorityClassName: "class"}, class: &never, want: core.ReplacementWaits,
		},
		"a group of a class without a policy": {
			pods: []*corev1.Pod{peaceful}, group: &gang.Group{PriorityClassName: "class"}, class: &lower, want: core.ReplacementPreempts,
		},
		"a group of a class that does not exist": {
			pods: []*corev1.Pod{peaceful}, group: &gang.Group{PriorityClassName: "another"}, class: &lower, want: core.ReplacementWaits,
		},
		"a group with a bare pod that never preempts": {
			pods: []*corev1.Pod{bare()}, group: &gang.Group{PreemptionPolicy: never}, want: core.NoReplacement,
		},
		"a group that does not exist": {pods: []*corev1.Pod{inGroup(owned(), "job")}, want: core.ReplacementPreempts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFacts()
			if tt.class != nil {
				class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}, PreemptionPolicy: tt.class}
				if err := f.classes.Add(class); err != nil {
					t.Fatal(err)
				}
			}
			var unit core.Unit
			for _, p := range tt.pods {
				p = p.DeepCopy()
				if tt.group != nil {
					p = inGroup(p, "job")
					f.groups[types.NamespacedName{Namespace: p.Namespace, Name: "job"}] = tt.group
				}
				unit.Pods = append(unit.Pods, core.Pod{Ref: podInfo(t, p)})
			}
			sources := f.sources()
			v := &View{Cluster: &core.Snapshot{Units: []core.Unit{unit}}, sources: &sources}
			if got := v.Replacement(0); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// inGroup adds the label of a group to a pod.
func inGroup(p *corev1.Pod, name string) *corev1.Pod {
	metav1.SetMetaDataLabel(&p.ObjectMeta, v1alpha1.LabelPodGroup, name)
	return p
}
