package deploy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workWatch watches all pods in the namespace default. It reports an error if a pod is deleted that
// the test did not delete, or if a pod is bound twice.
type workWatch struct {
	mu     sync.Mutex
	pods   map[string]seen
	leave  map[string]bool
	faults []string
}

// seen has the observations about a pod. The tests never use a name for two pods.
type seen struct {
	uid  types.UID
	node string
}

// watchWork starts a watch that ends with the test.
func watchWork(t *testing.T, c *cluster) *workWatch {
	t.Helper()
	watcher, err := client.NewWithWatch(c.playground.RESTConfig(), client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := watcher.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(metav1.NamespaceDefault))
	if err != nil {
		t.Fatal(err)
	}
	w := &workWatch{pods: map[string]seen{}, leave: map[string]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			w.see(event)
		}
		if t.Context().Err() == nil {
			w.fault("the watch has ended")
		}
	}()
	t.Cleanup(func() {
		stream.Stop()
		<-done
	})
	return w
}

func (w *workWatch) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// mayLeave records that the test deletes the pods.
func (w *workWatch) mayLeave(pods ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range pods {
		w.leave[pod] = true
	}
}

func (w *workWatch) see(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		w.fault("the watch says %s %+v", event.Type, event.Object)
		return
	}
	w.mu.Lock()
	before, known := w.pods[pod.Name]
	leaves := w.leave[pod.Name]
	w.pods[pod.Name] = seen{uid: pod.UID, node: pod.Spec.NodeName}
	w.mu.Unlock()
	switch {
	case leaves:
	case event.Type == watch.Deleted || pod.DeletionTimestamp != nil:
		w.fault("%s is deleted", pod.Name)
	case known && before.uid != pod.UID:
		w.fault("%s is another pod than before", pod.Name)
	case before.node != "" && before.node != pod.Spec.NodeName:
		w.fault("%s has the node %s after %s", pod.Name, pod.Spec.NodeName, before.node)
	case pod.Status.Phase == corev1.PodFailed:
		w.fault("%s has failed", pod.Name)
	case slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }):
		w.fault("%s is to be evicted", pod.Name)
	}
}

// check fails the test if the watch has observed an error, or if the audit log shows that a pod was
// bound twice.
func (w *workWatch) check(t *testing.T, c *cluster) {
	t.Helper()
	var codes map[string][]int32
	// The API server writes a request to the audit log after a moment.
	eventually(t, "a binding for each pod that has a node", func(context.Context) string {
		codes = bindings(readAudit(t, c.auditLog))
		for _, pod := range w.placed() {
			if len(codes[pod]) == 0 {
				return pod + " has none"
			}
		}
		return ""
	})
	for pod, said := range codes {
		if len(said) > 1 {
			t.Logf("the API server answered %d to bindings of %s", said, pod)
		}
		if twice(said) {
			t.Errorf("%s was given a node more than once: the API server answered %d", pod, said)
		}
	}
	for _, event := range readAudit(t, c.auditLog) {
		if o := event.ObjectRef; o != nil && o.Resource == "pods" && (event.Verb == "delete" || o.Subresource == "eviction") {
			t.Errorf("a scheduler has sent %s %s", event.Verb, event.RequestURI)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		t.Error(fault)
	}
	t.Logf("%d pods were bound, of %d", len(codes), len(w.pods))
}

// bindings maps the name of a pod to the status codes of all requests that bind it.
func bindings(events []*auditv1.Event) map[string][]int32 {
	out := map[string][]int32{}
	for _, event := range events {
		o := event.ObjectRef
		if event.Verb != "create" || o == nil || o.Resource != "pods" || o.Subresource != "binding" {
			continue
		}
		code := int32(0)
		if event.ResponseStatus != nil {
			code = event.ResponseStatus.Code
		}
		out[o.Name] = append(out[o.Name], code)
	}
	return out
}

// twice reports whether the status codes show that a pod was bound twice. If a scheduler ends while
// a request is in progress, the status code is neither a success nor a conflict. Then the pod may
// or may not be bound, so a conflict of the next scheduler is permitted.
func twice(codes []int32) bool {
	bound := 0
	for _, code := range codes {
		switch code {
		case http.StatusCreated:
			bound++
		case http.StatusConflict:
		default:
			return false
		}
	}
	return bound > 1 || bound < len(codes)
}

// placed returns the names of the pods that have a node.
func (w *workWatch) placed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for pod, s := range w.pods {
		if s.node != "" {
			out = append(out, pod)
		}
	}
	return out
}

// waitPlaced waits until each pod in the namespace default has a node, except the named pods.
func (c *cluster) waitPlaced(t *testing.T, but ...string) {
	t.Helper()
	eventually(t, "a node for each pod", func(ctx context.Context) string {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err.Error()
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName == "" && !slices.Contains(but, pod.Name) {
				return pod.Name + " has none"
			}
		}
		return ""
	})
}
