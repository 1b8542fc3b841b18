package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// groupAPI is one of the two APIs that have PodGroups.
type groupAPI struct {
	name string
	// group makes a PodGroup, and join has a pod name one.
	group func(groupSpec) client.Object
	join  func(pod *corev1.Pod, group string)
	// memberOf is the group that a pod names, or "".
	memberOf func(*corev1.Pod) string
}

// reprieveAPI has the PodGroups of reprieve.dev.
func reprieveAPI() groupAPI {
	return groupAPI{
		name:     v1alpha1.GroupName,
		group:    func(s groupSpec) client.Object { return s.build() },
		join:     func(pod *corev1.Pod, group string) { pod.Labels[v1alpha1.LabelPodGroup] = group },
		memberOf: func(pod *corev1.Pod) string { return pod.Labels[v1alpha1.LabelPodGroup] },
	}
}

// nativeAPI has the PodGroups of scheduling.k8s.io.
func nativeAPI() groupAPI {
	return groupAPI{
		name:  schedulingv1alpha2.GroupName,
		group: func(s groupSpec) client.Object { return s.buildNative() },
		join: func(pod *corev1.Pod, group string) {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		},
		memberOf: func(pod *corev1.Pod) string {
			if pod.Spec.SchedulingGroup == nil {
				return ""
			}
			return ptr.Deref(pod.Spec.SchedulingGroup.PodGroupName, "")
		},
	}
}

// conditionsOf reads the conditions of a PodGroup of either API.
func conditionsOf(obj client.Object) []metav1.Condition {
	switch pg := obj.(type) {
	case *v1alpha1.PodGroup:
		return pg.Status.Conditions
	case *schedulingv1alpha2.PodGroup:
		return pg.Status.Conditions
	}
	return nil
}

// startOf reads since when minCount members run together, or nil. PodGroups of scheduling.k8s.io have no field
// for that, and a condition in its place.
func startOf(obj client.Object) *metav1.Time {
	if pg, ok := obj.(*v1alpha1.PodGroup); ok {
		return pg.Status.StartTime
	}
	if c := meta.FindStatusCondition(conditionsOf(obj), native.ConditionStarted); c != nil && c.Status == metav1.ConditionTrue {
		return &c.LastTransitionTime
	}
	return nil
}

func groupAPIs() []groupAPI { return []groupAPI{reprieveAPI(), nativeAPI()} }

// onBothAPIs runs a test with the PodGroups of each API, side by side.
func onBothAPIs(t *testing.T, test func(*env)) {
	t.Helper()
	for _, api := range groupAPIs() {
		t.Run(api.name, func(t *testing.T) {
			t.Parallel()
			test(newEnv(t, api))
		})
	}
}

// oneByOne is onBothAPIs for tests that nothing may run beside.
func oneByOne(t *testing.T, test func(*env)) {
	t.Helper()
	for _, api := range groupAPIs() {
		t.Run(api.name, func(t *testing.T) { test(newEnv(t, api)) })
	}
}

// each runs a table's cases with the PodGroups of each API, side by side, each in an environment of its own.
func each[C any](t *testing.T, cases map[string]C, run func(*env, C)) {
	t.Helper()
	for name, c := range cases {
		for _, api := range groupAPIs() {
			t.Run(name+"/"+api.name, func(t *testing.T) {
				t.Parallel()
				run(newEnv(t, api), c)
			})
		}
	}
}
