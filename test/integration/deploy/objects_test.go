package deploy

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// These are the names and values of the tests' PriorityClasses.
const (
	low       = "low"
	high      = "high"
	lowValue  = 1000
	highValue = 100000
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// newPod returns a pod that runs only on the nodes of a pool.
func newPod(podName, pool, class string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: meta(podName),
		Spec: corev1.PodSpec{
			SchedulerName:                 name,
			PriorityClassName:             class,
			NodeSelector:                  map[string]string{poolLabel: pool},
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers:                    []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// asks returns a function that sets a request of a pod, and an equal limit.
func asks(resourceName corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		list := corev1.ResourceList{resourceName: resource.MustParse(quantity)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	}
}

// memberOf returns a function that makes a pod a member of a PodGroup.
func memberOf(group string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
	}
}

func (c *cluster) waitRunning(t *testing.T, names ...string) {
	t.Helper()
	for _, podName := range names {
		eventually(t, "pod "+podName, func(ctx context.Context) string {
			var pod corev1.Pod
			if err := c.Get(ctx, client.ObjectKeyFromObject(newPod(podName, "", "")), &pod); err != nil {
				return err.Error()
			}
			if pod.Status.Phase != corev1.PodRunning {
				return "its phase is " + string(pod.Status.Phase)
			}
			return ""
		})
	}
}

func (c *cluster) waitGone(t *testing.T, names ...string) {
	t.Helper()
	for _, podName := range names {
		eventually(t, "pod "+podName, func(ctx context.Context) string {
			var pod corev1.Pod
			err := c.Get(ctx, client.ObjectKeyFromObject(newPod(podName, "", "")), &pod)
			if apierrors.IsNotFound(err) {
				return ""
			}
			return "it is still there"
		})
	}
}

// eventsOn returns the events that are about an object and have the given reason.
func (c *cluster) eventsOn(ctx context.Context, t *testing.T, kind, object, reason string) []eventsv1.Event {
	t.Helper()
	var events eventsv1.EventList
	if err := c.List(ctx, &events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(events.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Kind != kind || e.Regarding.Name != object || e.Reason != reason
	})
}

func (c *cluster) waitEvent(t *testing.T, kind, object, reason string) {
	t.Helper()
	eventually(t, "event "+reason+" on "+kind+" "+object, func(ctx context.Context) string {
		if len(c.eventsOn(ctx, t, kind, object, reason)) == 0 {
			return "there is none"
		}
		return ""
	})
}

// nodeOf returns the node of a pool with one node.
func (c *cluster) nodeOf(t *testing.T, pool string) *corev1.Node {
	t.Helper()
	var nodes corev1.NodeList
	if err := c.List(t.Context(), &nodes, client.MatchingLabels{poolLabel: pool}); err != nil || len(nodes.Items) != 1 {
		t.Fatalf("pool %s has %d nodes, want 1: %v", pool, len(nodes.Items), err)
	}
	return &nodes.Items[0]
}

// waitGroup waits until check returns "" for a PodGroup. Otherwise check describes what is
// different from the expected state.
func (c *cluster) waitGroup(t *testing.T, group string, check func(*v1alpha1.PodGroup) string) {
	t.Helper()
	eventually(t, "PodGroup "+group, func(ctx context.Context) string {
		var pg v1alpha1.PodGroup
		if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: group}, &pg); err != nil {
			return err.Error()
		}
		return check(&pg)
	})
}
