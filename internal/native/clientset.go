package native

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// NewClientset returns a client that reads pods with spec.workloadRef. It presents the reference to
// a Workload's group as a PodGroup in spec.schedulingGroup. The current Go type of pods lacks
// spec.workloadRef, so the returned client reads pods through the dynamic client. All other calls
// go to c.
func NewClientset(c kubernetes.Interface, pods dynamic.Interface) kubernetes.Interface {
	return &clientset{Interface: c, pods: pods}
}

type clientset struct {
	kubernetes.Interface
	pods dynamic.Interface
}

// CoreV1 is part of kubernetes.Interface.
func (c *clientset) CoreV1() corev1client.CoreV1Interface {
	return &coreClient{CoreV1Interface: c.Interface.CoreV1(), pods: c.pods}
}

type coreClient struct {
	corev1client.CoreV1Interface
	pods dynamic.Interface
}

// Pods is part of CoreV1Interface.
func (c *coreClient) Pods(namespace string) corev1client.PodInterface {
	return &podClient{
		PodInterface: c.CoreV1Interface.Pods(namespace),
		raw:          c.pods.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace),
	}
}

// podClient reads pods and translates their spec.workloadRef.
type podClient struct {
	corev1client.PodInterface
	raw dynamic.ResourceInterface
}

// Get is part of PodInterface.
func (c *podClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Pod, error) {
	u, err := c.raw.Get(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return podOf(u)
}

// List is part of PodInterface.
func (c *podClient) List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	all, err := c.raw.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	out := &corev1.PodList{
		ListMeta: metav1.ListMeta{ResourceVersion: all.GetResourceVersion(), Continue: all.GetContinue(), RemainingItemCount: all.GetRemainingItemCount()},
		Items:    make([]corev1.Pod, len(all.Items)),
	}
	for i := range all.Items {
		pod, err := podOf(&all.Items[i])
		if err != nil {
			return nil, err
		}
		out.Items[i] = *pod
	}
	return out, nil
}

// Watch is part of PodInterface.
func (c *podClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := c.raw.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		// The object of an error event is a Status and not a pod.
		if u, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Error {
			pod, err := podOf(u)
			if err != nil {
				status := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
				return watch.Event{Type: watch.Error, Object: &status}, true
			}
			event.Object = pod
		}
		return event, true
	}), nil
}

// podOf converts an unstructured pod. The result shares no data with u.
func podOf(u *unstructured.Unstructured) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pod); err != nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	// The typed client leaves TypeMeta empty, so this client does too.
	pod.TypeMeta = metav1.TypeMeta{}
	spec, ok := u.Object["spec"].(map[string]any)
	if ok {
		setWorkloadRef(pod, spec)
	} else {
		delete(pod.Annotations, AnnotationWorkloadRef)
	}
	return pod, nil
}
