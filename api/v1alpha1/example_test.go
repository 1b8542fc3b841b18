package v1alpha1_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// show prints the fields that a user writes in an object, as YAML.
func show(obj runtime.Object) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		fmt.Println(err)
		return
	}
	delete(fields, "status")
	raw, err := yaml.Marshal(fields)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(raw))
}

// A gang of six Pods that is preempted as a whole or not at all, and one of its Pods.
func ExamplePodGroup() {
	group := &v1alpha1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "training"},
	}
	group.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 6}}
	group.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
	group.Spec.PriorityClassName = ptr.To("training")
	group.Spec.QueueName = ptr.To("research")
	show(group)

	member := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: "training-0", Labels: map[string]string{
		v1alpha1.LabelPodGroup: group.Name,
	}}}
	fmt.Println("---")
	fmt.Println(member.Name, member.Labels)
	// Output:
	// apiVersion: reprieve.dev/v1alpha1
	// kind: PodGroup
	// metadata:
	//   name: training
	//   namespace: default
	// spec:
	//   disruptionMode: PodGroup
	//   priorityClassName: training
	//   queueName: research
	//   schedulingPolicy:
	//     gang:
	//       minCount: 6
	// ---
	// training-0 map[reprieve.dev/pod-group:training]
}

// Print the state of a PodGroup that waits.
func ExamplePodGroupStatus() {
	status := v1alpha1.PodGroupStatus{
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionPodGroupScheduled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnschedulable,
			Message: "4 of 6 members have room",
		}},
		Pending: 6,
	}
	scheduled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPodGroupScheduled)
	if scheduled != nil && scheduled.Status == metav1.ConditionFalse {
		fmt.Printf("%d pods wait (%s): %s\n", status.Pending, scheduled.Reason, scheduled.Message)
	}
	// Output:
	// 6 pods wait (Unschedulable): 4 of 6 members have room
}

// A leaf queue that can always reclaim 8 GPUs. Its work above that quota runs for at least ten
// minutes before other queues may reclaim its GPUs.
func ExampleQueue() {
	queue := &v1alpha1.Queue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Queue"},
		ObjectMeta: metav1.ObjectMeta{Name: "research"},
	}
	queue.Spec.Quota = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	queue.Spec.OverQuotaWeight = ptr.To[int32](3)
	queue.Spec.ReclaimMinRuntime = &metav1.Duration{Duration: 10 * time.Minute}
	show(queue)
	// Output:
	// apiVersion: reprieve.dev/v1alpha1
	// kind: Queue
	// metadata:
	//   name: research
	// spec:
	//   overQuotaWeight: 3
	//   quota:
	//     nvidia.com/gpu: "8"
	//   reclaimMinRuntime: 10m0s
}

// A client can read and write the types after AddToScheme.
func ExampleAddToScheme() {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	kinds, _, err := scheme.ObjectKinds(&v1alpha1.Workload{})
	fmt.Println(kinds, err)
	// Output:
	// [reprieve.dev/v1alpha1, Kind=Workload] <nil>
}
