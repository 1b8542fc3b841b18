package groups

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestShapes tests derived gangs of unusual objects: they change, mix PriorityClasses, or contain
// invalid or malicious data.
func TestShapes(t *testing.T) {
	t.Parallel()
	s := startWith(t, "Job, RayCluster")
	s.CreateClasses(map[string]int32{"urgent": 1000, "idle": -10})
	serve(s, "ray.io_rayclusters")
	for name, test := range map[string]func(*stage.Stage){
		"the lowest class of all counts":             lowestClass,
		"a role is added to a gang that runs":        addedRole,
		"a class that does not exist yet":            lateClass,
		"a queue that is mended":                     mendedQueue,
		"a namespace's queue, and what it takes":     namespaceQueue,
		"an object that owns itself":                 ownsItself,
		"a pod that says it is another namespace's":  forged,
		"a Job that is deleted, and leaves its pods": orphaned,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// ray creates a RayCluster. groups has its worker groups, and autoscales sets the field
// enableInTreeAutoscaling.
func ray(s *stage.Stage, autoscales bool, groups string) *unstructured.Unstructured {
	s.Helper()
	made := create(s, fmt.Sprintf("apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: ray, annotations: {%s}}\n"+
		"spec: {enableInTreeAutoscaling: %t, headGroupSpec: {rayStartParams: {}, template: %s}, workerGroupSpecs: [%s]}\n", on, autoscales, podTemplate, groups))
	s.Cleanup(func() { remove(s, made) })
	return made
}

// rayGroup returns a worker group in YAML. least is its minReplicas.
func rayGroup(name string, replicas, least int) string {
	return fmt.Sprintf("{groupName: %s, replicas: %d, minReplicas: %d, maxReplicas: 9, rayStartParams: {}, template: %s}", name, replicas, least, podTemplate)
}

// rayPod creates a pod of a worker group like KubeRay.
func rayPod(s *stage.Stage, cluster *unstructured.Unstructured, name, group, class string) {
	s.Helper()
	pod := stage.NewPod(s.Namespace, name, class, 1)
	pod.Labels, pod.OwnerReferences = map[string]string{"ray.io/group": group}, []metav1.OwnerReference{ownedBy(cluster)}
	s.Create(pod)
}

// classOf returns a check for group: the PodGroup must name the PriorityClass.
func classOf(class string) func(*v1alpha1.PodGroup) bool {
	return func(pg *v1alpha1.PodGroup) bool { return ptr.Deref(pg.Spec.PriorityClassName, "") == class }
}

// lowestClass tests a RayCluster whose pods have different PriorityClasses. The PodGroup must have
// the lowest of them. The head has a higher class and is created first. When the first worker
// exists, the PodGroup must get the worker's class, so that the gang preempts nothing.
func lowestClass(s *stage.Stage) {
	s.AddNodes(3, "a")
	s.Create(stage.NewPod(s.Namespace, "other", "", 1))
	s.Runs("other", 1)
	cluster := ray(s, false, rayGroup("gpu", 2, 0))
	rayPod(s, cluster, "ray-head", "headgroup", "urgent")
	group(s, "ray-", "has the class of the head", classOf("urgent"))
	rayPod(s, cluster, "ray-gpu-0", "gpu", "idle")
	group(s, "ray-", "has the class of the workers", classOf("idle"))
	rayPod(s, cluster, "ray-gpu-1", "gpu", "idle")
	noRoom(s, "ray-", "ray-")
	s.Runs("other", 1)
	s.AddNodes(1, "b")
	s.Runs("ray-", 3)
}

// addedRole adds a worker group to a running RayCluster. The added pods must run with the gang. A
// further pod with a lower class than the gang must wait, because the gang's priority would be too
// high for it.
func addedRole(s *stage.Stage) {
	s.AddNodes(5, "a")
	cluster := ray(s, false, rayGroup("gpu", 1, 0))
	rayPod(s, cluster, "ray-head", "headgroup", "urgent")
	rayPod(s, cluster, "ray-gpu-0", "gpu", "urgent")
	s.Runs("ray-", 2)
	patch := []byte(`[{"op": "add", "path": "/spec/workerGroupSpecs/-", "value": {"groupName": "cpu", "replicas": 2, "minReplicas": 0, "maxReplicas": 9, ` +
		`"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]}}}}]`)
	if err := s.Objects.Patch(s.Context(), cluster, client.RawPatch("application/json-patch+json", patch)); err != nil {
		s.Fatal(err)
	}
	rayPod(s, cluster, "ray-cpu-0", "cpu", "urgent")
	rayPod(s, cluster, "ray-cpu-1", "cpu", "urgent")
	s.Runs("ray-", 4)
	rayPod(s, cluster, "ray-cpu-2", "cpu", "idle")
	says(s, "ray-cpu-2", v1alpha1.ReasonPriorityAbovePods, "higher class")
	s.Runs("ray-", 4)
}

// says waits until a pod whose name has the prefix reports the reason why it waits, in a condition
// and in an event. In a group, only one pod has the event.
func says(s *stage.Stage, name, reason string, phrases ...string) {
	s.Helper()
	s.Eventually(name+" says "+reason, func(ctx context.Context) string {
		said := "it says nothing"
		for _, pod := range s.Pods(ctx, name) {
			_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
			if c == nil {
				continue
			}
			events := s.EventsOf(ctx, pod.Name, reason)
			if c.Reason == reason && stage.Mentions(c.Message, phrases) && len(events) > 0 {
				return ""
			}
			said = fmt.Sprintf("it says %s, in %d events: %s", c.Reason, len(events), c.Message)
		}
		return said
	})
}

// lateClass tests a Job with a missing PriorityClass. Until the class exists, the Job must have no
// PodGroup, and its pods must report the cause.
func lateClass(s *stage.Stage) {
	s.AddNodes(4, "a")
	class := "late-" + s.Namespace
	job(s, "train", on+", reprieve.dev/priority-class: "+class, "", "parallelism: 2")
	says(s, "train-", gang.ReasonPodGroupNotMade, "Job train", class)
	if n := placed(s, "train-"); n > 0 {
		s.Errorf("%d of its pods have a node", n)
	}
	s.CreateClasses(map[string]int32{class: -5})
	s.Runs("train-", 2)
	group(s, "train-", "has the class", classOf(class))
}

// mendedQueue tests a Job with an unknown queue. The pods of the Job must wait, and be placed after
// its annotation is corrected.
func mendedQueue(s *stage.Stage) {
	s.AddNodes(4, "a")
	// The scheduler ignores the names of queues if no Queue exists.
	queue(s, v1alpha1.QueueSpec{})
	made := job(s, "train", on+", reprieve.dev/queue: no-such", "", "parallelism: 2")
	group(s, "train-", "waits for its queue", func(pg *v1alpha1.PodGroup) bool {
		return ptr.Deref(pg.Spec.QueueName, "") == "no-such" && strings.Contains(fmt.Sprint(pg.Status.Conditions), v1alpha1.ReasonQueueNotFound)
	})
	annotate(s, made, v1alpha1.AnnotationQueue, "")
	s.Runs("train-", 2)
	group(s, "train-", "is in no queue", func(pg *v1alpha1.PodGroup) bool { return pg.Spec.QueueName == nil })
}

// namespaceQueue tests a gang without a queue in a namespace with a default queue. The gang must be
// in this queue and obey its rules.
func namespaceQueue(s *stage.Stage) {
	s.AddNodes(4, "a")
	queue := queue(s, v1alpha1.QueueSpec{MaxPriorityClass: ptr.To("idle")})
	annotate(s, namespaceOf(s), v1alpha1.AnnotationDefaultQueue, queue.Name)
	// Wait until a single pod is blocked. Then the scheduler has cached the Queue and the
	// annotation of the namespace.
	s.Create(stage.NewPod(s.Namespace, "probe", "", 1))
	s.WaitEvent("probe", v1alpha1.ReasonPriorityAboveQueue, queue.Name)
	job(s, "train", on, "", "parallelism: 2")
	group(s, "train-", "is kept out of its queue", func(pg *v1alpha1.PodGroup) bool {
		return ptr.Deref(pg.Spec.QueueName, "") == queue.Name && strings.Contains(fmt.Sprint(pg.Status.Conditions), v1alpha1.ReasonPriorityAboveQueue)
	})
	if n := placed(s, "train-"); n > 0 {
		s.Errorf("%d of its pods have a node", n)
	}
	if err := s.Objects.Patch(s.Context(), queue, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"maxPriorityClass":"urgent"}}`))); err != nil {
		s.Fatal(err)
	}
	s.Runs("train-", 2)
	s.Runs("probe", 1)
}

// ownsItself tests a Job that is its own owner, which the API server accepts. Its pods must form a
// gang as usual.
func ownsItself(s *stage.Stage) {
	s.AddNodes(2, "a")
	made := job(s, "train", on, "", "parallelism: 3, suspend: true")
	patch := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"train","uid":%q,"controller":true}]},"spec":{"suspend":false}}`, made.GetUID())
	if err := s.Objects.Patch(s.Context(), made, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		s.Fatal(err)
	}
	noRoom(s, "train-", "train-")
	s.AddNodes(1, "b")
	s.Runs("train-", 3)
}

// forged tests a pod whose owner reference names a Job in another namespace. The pod must not
// become a member of that Job's gang.
func forged(s *stage.Stage) {
	s.AddNodes(4, "a")
	made := job(s, "train", on, "", "parallelism: 3, suspend: true")
	pod := stage.NewPod("default", "forged-"+s.Namespace, "", 1)
	pod.OwnerReferences = []metav1.OwnerReference{ownedBy(made)}
	// The finalizer keeps the pod until the end of the test, although the garbage collector deletes
	// it.
	pod.Finalizers = []string{"reprieve.dev/test"}
	s.Create(pod)
	s.Cleanup(func() {
		free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := client.IgnoreNotFound(s.Objects.Patch(context.WithoutCancel(s.Context()), pod, free)); err != nil {
			s.Error(err)
		}
		remove(s, pod)
	})
	change(s, "train", func(spec *batchv1.JobSpec) { spec.Suspend = ptr.To(false) })
	s.Runs("train-", 3)
	pg := group(s, "train-", "has three members", func(pg *v1alpha1.PodGroup) bool { return pg.Status.Scheduled == 3 })
	if st := pg.Status; st.Pending+st.Terminating+st.Finished > 0 {
		s.Errorf("it counts more than its members: %+v", st)
	}
	s.Eventually("the forged pod has no node", func(ctx context.Context) string {
		found, err := s.Kube.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if found.Spec.NodeName != "" {
			return "it has " + found.Spec.NodeName
		}
		return ""
	})
}

// orphaned tests pods whose Job is deleted. They must run as single pods, and the PodGroup must be
// deleted.
func orphaned(s *stage.Stage) {
	s.AddNodes(2, "a")
	made := job(s, "train", on, "", "parallelism: 3")
	noRoom(s, "train-", "train-")
	orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
	if err := s.Objects.Delete(s.Context(), made, orphan); err != nil {
		s.Fatal(err)
	}
	s.Runs("train-", 2)
	none(s)
}
