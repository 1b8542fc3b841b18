package derived_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// understanding returns the default configuration, extended by the labels of the schedulers kai and
// koordinator.
func understanding(t *testing.T) *config.KubeSchedulerConfiguration {
	t.Helper()
	cfg := configuration(t)
	for i, plugin := range cfg.Profiles[0].PluginConfig {
		if plugin.Name == configv1alpha1.PluginName {
			cfg.Profiles[0].PluginConfig[i].Args = &runtime.Unknown{Raw: []byte(`{"groups": {"kinds": ["Job"], "labels": ["kai", "koordinator"]}}`)}
		}
	}
	return cfg
}

// TestCompleteTenancy checks the PriorityClass and the queue of a completed PodGroup. The class
// must not be higher than the class of the group's pods.
func TestCompleteTenancy(t *testing.T) {
	t.Parallel()
	classes := []inventory.Change{
		{Resource: inventory.PriorityClasses, Object: &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}},
		{Resource: inventory.PriorityClasses, Object: &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: 10}},
		{Resource: inventory.PriorityClasses, Object: &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "idle"}, Value: -10}},
	}
	cfg := understanding(t)
	roots, err := derived.Roots(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		// asks is the PriorityClass that the Job requests. write edits its pods.
		asks  string
		write func(*corev1.Pod)
		// want checks the PodGroup. A nil want means that there must be no PodGroup.
		want func(*v1alpha1.PodGroup) bool
	}{
		"no more than the pods have": {asks: "high", want: func(pg *v1alpha1.PodGroup) bool {
			return *pg.Spec.PriorityClassName == "low" && *pg.Spec.Priority == 10
		}},
		"less than the pods have":   {asks: "idle", want: func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.PriorityClassName == "idle" }},
		"a class that is not there": {asks: "later"},
		"a queue in other words": {
			write: func(pod *corev1.Pod) { pod.Labels = map[string]string{"kai.scheduler/queue": "red"} },
			want:  func(pg *v1alpha1.PodGroup) bool { return ptr.Deref(pg.Spec.QueueName, "") == "red" },
		},
		"a gang in other words": {
			write: func(pod *corev1.Pod) {
				pod.OwnerReferences = nil
				pod.Annotations = map[string]string{"gang.scheduling.koordinator.sh/name": "train", "gang.scheduling.koordinator.sh/min-available": "3"}
			},
			want: func(pg *v1alpha1.PodGroup) bool {
				return len(pg.OwnerReferences) == 0 && pg.Spec.SchedulingPolicy.Gang.MinCount == 3
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := pods(3, corev1.PodPending)
			for i := range all {
				pod, ok := all[i].Object.(*corev1.Pod)
				if !ok {
					t.Fatalf("%T is no pod", all[i].Object)
				}
				pod.Spec.PriorityClassName, pod.Spec.Priority = "low", ptr.To(int32(10))
				if c.write != nil {
					c.write(pod)
				}
			}
			in := world(t, "spec: {parallelism: 3}", roots, append(all, classes...)...)
			if c.asks != "" {
				in = asking(t, in, c.asks)
			}
			in, _, err := derived.Complete(t.Context(), in, cfg)
			if err != nil {
				t.Fatal(err)
			}
			made, err := inventory.Decode[*v1alpha1.PodGroup](in, inventory.PodGroups)
			switch {
			case err != nil:
				t.Fatal(err)
			case c.want == nil && len(made) == 0:
			case c.want == nil || len(made) != 1 || !c.want(made[0]):
				t.Errorf("the PodGroups are %+v", made)
			}
		})
	}
}

// TestQueueOfWithoutRoots checks that pods can name their queue even if the inventory has no root
// kinds.
func TestQueueOfWithoutRoots(t *testing.T) {
	t.Parallel()
	groups, err := derived.New(world(t, "spec: {}", nil), understanding(t))
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"kai.scheduler/queue": "red"}, Annotations: map[string]string{"pod-group-name": "train"}},
		Spec:       corev1.PodSpec{SchedulerName: "reprieve-scheduler"},
	}
	if got := groups.QueueOf(pod); got != "red" || groups.Used() {
		t.Errorf("it is in queue %q, and groups are derived: %t", got, groups.Used())
	}
	if _, ok := groups.GroupOf(pod); ok {
		t.Error("it is in a group")
	}
}
