package preemptiontoleration_test

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// training returns a PriorityClass whose pods tolerate preemption by priorities below 10,000 for
// ten minutes after they were scheduled.
func training() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "training", Annotations: map[string]string{
			preemptiontoleration.AnnotationMinimumPreemptablePriority: "10000",
			preemptiontoleration.AnnotationTolerationSeconds:          "600",
		}},
		Value: 8000,
	}
}

// scheduledPod returns a pod of the class training that was scheduled at the given time.
func scheduledPod(at time.Time) *corev1.Pod {
	return &corev1.Pod{
		Spec: corev1.PodSpec{PriorityClassName: "training"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)},
		}},
	}
}

func Example() {
	policy, err := preemptiontoleration.FromPriorityClass(training())
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduled := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, preemptor := range []int32{9000, 10000} {
		for _, after := range []time.Duration{10 * time.Minute, 11 * time.Minute} {
			tolerates, until := policy.Tolerates(preemptor, scheduled, scheduled.Add(after))
			if tolerates {
				fmt.Printf("priority %d after %v: may not, until %s\n", preemptor, after, until.Format(time.TimeOnly))
			} else {
				fmt.Printf("priority %d after %v: may\n", preemptor, after)
			}
		}
	}
	// Output:
	// priority 9000 after 10m0s: may not, until 12:10:00
	// priority 9000 after 11m0s: may
	// priority 10000 after 10m0s: may
	// priority 10000 after 11m0s: may
}

// If an annotation is malformed, the class has no policy, and the error names the annotation.
func ExampleFromPriorityClass_malformed() {
	class := training()
	class.Annotations[preemptiontoleration.AnnotationTolerationSeconds] = "10m"
	policy, err := preemptiontoleration.FromPriorityClass(class)
	var malformed *preemptiontoleration.MalformedError
	if errors.As(err, &malformed) {
		fmt.Println(malformed.Class, malformed.Value, policy == nil)
	}
	// Output:
	// training 10m true
}

// A program can also create a policy without a PriorityClass. Pods with this policy tolerate
// preemption by priorities below 10,000 forever.
func ExamplePolicy_Tolerates() {
	policy := &preemptiontoleration.Policy{MinimumPreemptablePriority: 10000, TolerationSeconds: -1}
	scheduled := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tolerates, until := policy.Tolerates(9000, scheduled, scheduled.AddDate(10, 0, 0))
	fmt.Println(tolerates, until.Equal(preemptiontoleration.Forever()))
	// Output:
	// true true
}

// A PostFilter plugin calls CanToleratePreemption for each pod that it may preempt.
func ExampleCanToleratePreemption() {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := indexer.Add(training()); err != nil {
		fmt.Println(err)
		return
	}
	classes := schedulinglisters.NewPriorityClassLister(indexer)
	scheduled := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	victim, preemptor := scheduledPod(scheduled), &corev1.Pod{Spec: corev1.PodSpec{Priority: ptr.To[int32](9000)}}
	for _, after := range []time.Duration{time.Minute, time.Hour} {
		tolerates, err := preemptiontoleration.CanToleratePreemption(victim, preemptor, classes, scheduled.Add(after))
		fmt.Println(after, tolerates, err)
	}
	// Output:
	// 1m0s true <nil>
	// 1h0m0s false <nil>
}

// The toleration of a pod begins when the pod is scheduled.
func ExampleScheduledAt() {
	fmt.Println(preemptiontoleration.ScheduledAt(scheduledPod(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))))
	fmt.Println(preemptiontoleration.ScheduledAt(&corev1.Pod{}).IsZero())
	// Output:
	// 2026-01-01 12:00:00 +0000 UTC
	// true
}
