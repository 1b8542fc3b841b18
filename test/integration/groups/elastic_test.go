package groups

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestElastic tests objects whose number of pods changes while they run. Pods past the number that
// the gang needs must be placed if there is room, and must not preempt.
func TestElastic(t *testing.T) {
	t.Parallel()
	s := startWith(t, "Job, RayCluster")
	s.CreateClasses(map[string]int32{"idle": -10})
	serve(s, "ray.io_rayclusters")
	for name, test := range map[string]func(*stage.Stage){
		"an elastic Indexed Job":              elasticJob,
		"a RayCluster that scales by itself":  rayAutoscaling,
		"a RayCluster that scales and waits":  rayScalesWaiting,
		"a RayCluster with a large head":      rayLargeHead,
		"an Indexed Job is scaled as it ends": elasticJobEnds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// resize sets the size of an elastic indexed Job (KEP-3715).
func resize(s *stage.Stage, name string, count int32) {
	s.Helper()
	change(s, name, func(spec *batchv1.JobSpec) { spec.Parallelism, spec.Completions = ptr.To(count), ptr.To(count) })
}

// prey creates a running pod with a low priority. If another pod preempted, this pod would be
// evicted.
func prey(s *stage.Stage) types.UID {
	s.Helper()
	pod := stage.NewPod(s.Namespace, "prey", "idle", 1)
	s.Create(pod)
	s.Runs("prey", 1)
	return pod.UID
}

// nothingGoesFor waits until count pods whose names have the prefix have found no room. It checks
// that the prey is not evicted for them.
func nothingGoesFor(s *stage.Stage, prefix string, count int, prey types.UID) {
	s.Helper()
	s.Eventually(fmt.Sprintf("%d of %s find no room", count, prefix), func(ctx context.Context) string {
		n := 0
		for _, pod := range s.Pods(ctx, prefix) {
			_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
			if pod.Spec.NodeName == "" && c != nil && c.Reason == corev1.PodReasonUnschedulable {
				n++
			}
		}
		if n != count {
			return fmt.Sprintf("%d have been tried in vain", n)
		}
		return ""
	})
	s.Never("nothing goes for them", func(ctx context.Context) string {
		if pod := s.Find(ctx, "prey"); pod == nil || pod.UID != prey || pod.DeletionTimestamp != nil {
			return "the prey goes"
		}
		if events := s.EventsOf(ctx, "", "Preempting"); len(events) > 0 {
			return events[0].Message
		}
		return ""
	})
}

// elasticJob changes the size of a Job. A waiting gang must have the current size of its Job, and
// be placed as a whole. If the Job of a running gang becomes smaller, minCount must decrease. If
// the Job grows again, the additional members must be surplus.
func elasticJob(s *stage.Stage) {
	s.AddNodes(4, "a")
	job(s, "train", on, "", "parallelism: 5, completions: 5, completionMode: Indexed")
	first := group(s, "train-", "needs five", needs(5))
	noRoom(s, first.Name, "train-")
	resize(s, "train", 6)
	group(s, "train-", "needs six", needs(6))
	s.AddNodes(1, "b")
	// The gang now has six members, and five of them have room.
	group(s, "train-", "is planned again", waitsFor(v1alpha1.ReasonUnschedulable, "each of 6 members; 5 have room"))
	noneStarts(s, "train-")
	s.AddNodes(1, "c")
	s.Runs("train-", 6)

	resize(s, "train", 4)
	group(s, "train-", "needs four", needs(4))
	s.Runs("train-", 4)
	victim := prey(s)
	resize(s, "train", 7)
	place(s, "one of three more finds room", "train-", 5)
	nothingGoesFor(s, "train-", 2, victim)
	last := group(s, "train-", "still needs four", func(pg *v1alpha1.PodGroup) bool { return pg.Status.Scheduled == 5 })
	if last.UID != first.UID || minCount(last) != 4 {
		s.Errorf("PodGroup %s needs %d, want %s and four", last.UID, minCount(last), first.UID)
	}
	s.AddNodes(2, "d")
	s.Runs("train-", 7)
	resize(s, "train", 3)
	group(s, "train-", "needs three", needs(3))
	s.Runs("train-", 3)
}

// elasticJobEnds reduces the size of a Job after two of its indexes have completed. The gang must
// need only the remaining pods.
func elasticJobEnds(s *stage.Stage) {
	s.AddNodes(4, "a")
	job(s, "train", on, "", "parallelism: 4, completions: 4, completionMode: Indexed")
	s.Runs("train-", 4)
	succeed(s, "train", append(s.Pods(s.Context(), "train-0-"), s.Pods(s.Context(), "train-1-")...))
	resize(s, "train", 3)
	s.Eventually("the last index goes", func(ctx context.Context) string {
		if left := s.Pods(ctx, "train-"); len(left) != 3 {
			return fmt.Sprintf("%d are left", len(left))
		}
		return ""
	})
	group(s, "train-", "needs three", needs(3))
	madeAgain(s, "train-", "train-2-")
	group(s, "train-", "needs one", needs(1))
}

// autoscale sets the number of worker replicas of a RayCluster, like Ray's autoscaler.
func autoscale(s *stage.Stage, cluster *unstructured.Unstructured, replicas int) {
	s.Helper()
	patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": %d}]`, replicas)
	if err := s.Objects.Patch(s.Context(), cluster, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		s.Fatal(err)
	}
}

// rayMembers creates the head pod of a RayCluster and a number of worker pods.
func rayMembers(s *stage.Stage, cluster *unstructured.Unstructured, workers int) {
	s.Helper()
	rayPod(s, cluster, "ray-head", "headgroup", "")
	for i := range workers {
		rayPod(s, cluster, fmt.Sprint("ray-gpu-", i), "gpu", "")
	}
}

// rayAutoscaling tests a RayCluster with autoscaling. The gang must consist of the head and
// minReplicas workers. Workers past minReplicas must be surplus, so the autoscaler can remove them
// without an effect on the gang.
func rayAutoscaling(s *stage.Stage) {
	s.AddNodes(2, "a")
	cluster := ray(s, true, rayGroup("gpu", 2, 2))
	rayMembers(s, cluster, 2)
	made := group(s, "ray-", "needs head and two workers", needs(3))
	noRoom(s, made.Name, "ray-")
	s.AddNodes(1, "b")
	s.Runs("ray-", 3)
	gang := s.Pods(s.Context(), "ray-")
	s.AddNodes(2, "c")
	victim := prey(s)

	autoscale(s, cluster, 4)
	rayPod(s, cluster, "ray-gpu-2", "gpu", "")
	rayPod(s, cluster, "ray-gpu-3", "gpu", "")
	place(s, "one of two more workers finds room", "ray-", 4)
	nothingGoesFor(s, "ray-", 1, victim)
	stays := func(what string, scheduled int32) {
		s.Helper()
		pg := group(s, "ray-", what, func(pg *v1alpha1.PodGroup) bool {
			return pg.Status.Scheduled == scheduled && pg.Status.Phase == v1alpha1.PodGroupRunning
		})
		if pg.UID != made.UID || minCount(pg) != 3 {
			s.Errorf("PodGroup %s needs %d, want %s and three", pg.UID, minCount(pg), made.UID)
		}
	}
	stays("has one worker more", 4)
	s.AddNodes(1, "d")
	s.Runs("ray-", 5)
	stays("has two workers more", 5)

	autoscale(s, cluster, 2)
	remove(s, s.Pod("ray-gpu-2"))
	remove(s, s.Pod("ray-gpu-3"))
	s.Runs("ray-", 3)
	stays("has no more than it needs", 3)
	for _, pod := range gang {
		if now := s.Find(s.Context(), pod.Name); now == nil || now.UID != pod.UID {
			s.Errorf("%s does not run any more", pod.Name)
		}
	}
}

// rayScalesWaiting tests a waiting RayCluster whose autoscaler has already created more workers
// than minReplicas. The gang must still need only the head and minReplicas workers. Additional
// workers without room must wait.
func rayScalesWaiting(s *stage.Stage) {
	s.AddNodes(2, "a")
	cluster := ray(s, true, rayGroup("gpu", 2, 2))
	rayPod(s, cluster, "ray-gpu-0", "gpu", "")
	rayPod(s, cluster, "ray-gpu-1", "gpu", "")
	made := group(s, "ray-", "needs head and two workers", needs(3))
	autoscale(s, cluster, 4)
	rayPod(s, cluster, "ray-gpu-2", "gpu", "")
	rayPod(s, cluster, "ray-gpu-3", "gpu", "")
	// The head is created last, and its name is the last in the alphabet. The head must be placed
	// nevertheless.
	rayPod(s, cluster, "ray-head", "headgroup", "")
	noRoom(s, made.Name, "ray-")
	s.AddNodes(2, "b")
	place(s, "head and three workers find room", "ray-", 4)
	if s.Pod("ray-head").Spec.NodeName == "" {
		s.Error("the head is none of them")
	}
	group(s, "ray-", "needs three still", func(pg *v1alpha1.PodGroup) bool {
		return pg.UID == made.UID && pg.Status.Scheduled == 4 && minCount(pg) == 3
	})
}

// rayLargeHead tests a RayCluster whose head needs a large node. Additional workers must not count
// as a replacement of the head. The gang must preempt for its head: at the start, and after the
// head is lost.
func rayLargeHead(s *stage.Stage) {
	s.AddNodes(3, "large")
	s.AddNodes(1, "a", "b", "c", "d")
	sized := func(name, class string, labels map[string]string, owner ...metav1.OwnerReference) {
		s.Helper()
		pod := stage.NewPod(s.Namespace, name, class, 3)
		pod.Labels, pod.OwnerReferences = labels, owner
		s.Create(pod)
	}
	sized("prey-0", "idle", nil)
	s.Runs("prey-0", 1)
	cluster := ray(s, true, rayGroup("gpu", 4, 2))
	head := func() { sized("ray-head", "", map[string]string{"ray.io/group": "headgroup"}, ownedBy(cluster)) }
	head()
	for i := range 4 {
		rayPod(s, cluster, fmt.Sprint("ray-gpu-", i), "gpu", "")
	}
	group(s, "ray-", "needs head and two workers", needs(3))
	s.Runs("ray-", 5)
	s.Gone("prey-0")

	remove(s, s.Pod("ray-head"))
	s.Gone("ray-head")
	sized("prey-1", "idle", nil)
	s.Runs("prey-1", 1)
	head()
	s.Runs("ray-", 5)
	s.Gone("prey-1")
}
