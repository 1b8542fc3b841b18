package stage

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// FollowPods calls see for each existing pod of the test, and then for each change of a pod, until
// the test ends. It makes one call after the other and omits no change. If name is not empty, it
// follows only the pod with this name.
func (s *Stage) FollowPods(name string, see func(watch.EventType, *corev1.Pod)) {
	s.Helper()
	var options metav1.ListOptions
	if name != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	}
	pods := s.Kube.CoreV1().Pods(s.Namespace)
	now, err := pods.List(s.Context(), options)
	if err != nil {
		s.Fatalf("list pods: %v", err)
	}
	// The API server may end a slow watch. The retry watcher continues at the same resource
	// version.
	w, err := watchtools.NewRetryWatcherWithContext(s.Context(), now.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = options.FieldSelector
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		s.Fatalf("watch pods: %v", err)
	}
	for i := range now.Items {
		see(watch.Added, &now.Items[i])
	}
	var following sync.WaitGroup
	following.Go(func() {
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				see(event.Type, pod)
			} else {
				s.Errorf("watch pods: %s %v", event.Type, event.Object)
			}
		}
	})
	s.Cleanup(func() {
		w.Stop()
		following.Wait()
	})
}
