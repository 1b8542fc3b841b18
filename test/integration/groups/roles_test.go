package groups

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestSurplusByRole tests a RayCluster with a min-runtime. Only the surplus workers of one worker
// group may be evicted. The head, and the workers of another worker group, must not count as
// surplus.
func TestSurplusByRole(t *testing.T) {
	t.Parallel()
	s := startOf(t, playground.Options{}, map[string]string{stage.Profile: "groups: {kinds: [RayCluster]}, preemptMinRuntime: 1h"})
	s.CreateClasses(map[string]int32{"urgent": 10})
	serve(s, "ray.io_rayclusters")
	s = s.In(t)
	s.AddNodes(3, "head")
	s.AddNodes(2, "gpu")
	s.AddNodes(1, "a", "b", "c")
	cluster := ray(s, true, rayGroup("gpu", 1, 1)+", "+rayGroup("cpu", 3, 1))
	sized := func(name, group string, cpus int64) {
		s.Helper()
		pod := stage.NewPod(s.Namespace, name, "", cpus)
		pod.Labels, pod.OwnerReferences = map[string]string{"ray.io/group": group}, []metav1.OwnerReference{ownedBy(cluster)}
		s.Create(pod)
	}
	sized("ray-head", "headgroup", 3)
	sized("ray-gpu-0", "gpu", 2)
	for i := range 3 {
		sized(fmt.Sprint("ray-cpu-", i), "cpu", 1)
	}
	group(s, "ray-", "needs a head and a worker of each group", needs(3))
	s.Runs("ray-", 5)
	before := map[string]types.UID{}
	for _, pod := range s.Pods(s.Context(), "ray-") {
		before[pod.Name] = pod.UID
	}

	s.Create(stage.NewPod(s.Namespace, "large", "urgent", 2))
	s.WaitsSaying("large", "waits until", "(PreemptMinRuntime)")
	s.Never("nothing goes for it", func(ctx context.Context) string {
		if events := s.EventsOf(ctx, "", "Preempting"); len(events) > 0 {
			return events[0].Message
		}
		return ""
	})

	s.Create(stage.NewPod(s.Namespace, "small", "urgent", 1))
	s.Runs("small", 1)
	left := s.Pods(s.Context(), "ray-")
	cpus := 0
	for _, pod := range left {
		if pod.UID != before[pod.Name] || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			s.Errorf("%s does not run on", pod.Name)
		}
		if pod.Labels["ray.io/group"] == "cpu" {
			cpus++
		}
	}
	if len(left) != 4 || cpus != 2 {
		s.Errorf("%d members run on, %d of them spare workers and one that is needed; want a head, a worker with GPUs and two more", len(left), cpus)
	}
}
