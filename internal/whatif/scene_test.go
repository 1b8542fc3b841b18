package whatif_test

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

// scene holds the objects of a cluster.
type scene struct {
	now time.Time
	// namespace is the only namespace of the cluster.
	namespace *corev1.Namespace
	nodes     []*corev1.Node
	pods      []*corev1.Pod
	groups    []*v1alpha1.PodGroup
	queues    []*v1alpha1.Queue
	pdbs      []*policyv1.PodDisruptionBudget
	jobs      []*batchv1.Job
}

func newScene(now time.Time) *scene {
	return &scene{now: now, namespace: &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "uid-ns"},
	}}
}

// node adds a node with the number of GPUs.
func (s *scene) node(name string, gpus int64) *corev1.Node {
	has := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods: resource.MustParse("110"), gpu: *resource.NewQuantity(gpus, resource.DecimalSI),
	}
	n := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has},
	}
	s.nodes = append(s.nodes, n)
	return n
}

// pending returns a pod that requests GPUs. If group is not empty, the pod is a member of that
// group. The pod is not added to the scene.
func (s *scene) pending(name, group string, gpus int64, priority int32) *corev1.Pod {
	asks := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), gpu: *resource.NewQuantity(gpus, resource.DecimalSI)}
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(s.now.Add(-time.Minute).Truncate(time.Second)), Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "reprieve-scheduler", Priority: &priority, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "c", Image: "image", Resources: corev1.ResourceRequirements{Requests: asks, Limits: corev1.ResourceList{gpu: asks[gpu]}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if group != "" {
		p.Labels[v1alpha1.LabelPodGroup] = group
	}
	return p
}

// running adds a pod that has run on a node for the duration since.
func (s *scene) running(name, group, node string, gpus int64, priority int32, since time.Duration) *corev1.Pod {
	p := s.pending(name, group, gpus, priority)
	p.Spec.NodeName = node
	start := metav1.NewTime(s.now.Add(-since).Truncate(time.Second))
	p.CreationTimestamp = start
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: start},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start},
	}}
	s.pods = append(s.pods, p)
	return p
}

// leaving adds a terminating pod. Its grace period ends in the given time from now.
func (s *scene) leaving(name, node string, gpus int64, in time.Duration) *corev1.Pod {
	p := s.running(name, "", node, gpus, 1000, time.Hour)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(s.now.Add(in))), ptr.To(int64(60))
	return p
}

// years is a grace period that is too long for the scheduler to wait for.
const years = 1_000_000_000 * time.Second

// deletedWithin adds a pod with four GPUs on node-a that was deleted with the grace period years.
// since is the time of the deletion relative to now, so it is negative.
func (s *scene) deletedWithin(name string, since time.Duration) {
	p := s.leaving(name, "node-a", 4, since+years)
	p.DeletionGracePeriodSeconds = ptr.To(int64(years / time.Second))
}

// ofJob makes a Job the owner of a pod. The Job is not added to the scene.
func (s *scene) ofJob(p *corev1.Pod, name string) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID("uid-" + name), Controller: ptr.To(true)}}
	return p
}

// job adds a Job that has run for the duration since. deadline is its activeDeadlineSeconds; it may
// be nil.
func (s *scene) job(name string, since time.Duration, deadline *int64) {
	start := metav1.NewTime(s.now.Add(-since))
	s.jobs = append(s.jobs, &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       batchv1.JobSpec{ActiveDeadlineSeconds: deadline}, Status: batchv1.JobStatus{StartTime: &start},
	})
}

// group adds a gang with a disruption mode.
func (s *scene) group(name string, minCount, priority int32, mode v1alpha1.DisruptionMode, queue string) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1},
	}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCount}}
	pg.Spec.DisruptionMode, pg.Spec.Priority = &mode, &priority
	pg.Spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
	if queue != "" {
		pg.Spec.QueueName = &queue
	}
	s.groups = append(s.groups, pg)
	return pg
}

// queue adds a Queue whose quota is a number of GPUs.
func (s *scene) queue(name string, quota int64) *v1alpha1.Queue {
	q := &v1alpha1.Queue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Queue"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1},
	}
	q.Spec.Quota = corev1.ResourceList{gpu: *resource.NewQuantity(quota, resource.DecimalSI)}
	s.queues = append(s.queues, q)
	return q
}

// budget adds a PodDisruptionBudget for the pods whose label app has the given value. allowed is
// its maxUnavailable.
func (s *scene) budget(app string, allowed int32) {
	s.pdbs = append(s.pdbs, &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "of-" + app, UID: types.UID("uid-pdb-" + app), Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(allowed)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ObservedGeneration: 1, CurrentHealthy: 1, DesiredHealthy: 1 - allowed, ExpectedPods: 1},
	})
}

// inventory returns the objects of the scene and further pods.
func (s *scene) inventory(t testing.TB, more ...*corev1.Pod) *inventory.Inventory {
	t.Helper()
	changes := []inventory.Change{
		{Resource: "namespaces", Object: s.namespace},
		{Resource: inventory.PriorityClasses, Object: class("high", 1000)},
		{Resource: inventory.PriorityClasses, Object: class("low", 10)},
		{Resource: inventory.PriorityClasses, Object: tolerant()},
	}
	for _, o := range s.nodes {
		changes = append(changes, inventory.Change{Resource: inventory.Nodes, Object: o})
	}
	for _, pods := range [][]*corev1.Pod{s.pods, more} {
		for _, o := range pods {
			changes = append(changes, inventory.Change{Resource: inventory.Pods, Object: o})
		}
	}
	for _, o := range s.groups {
		changes = append(changes, inventory.Change{Resource: inventory.PodGroups, Object: o})
	}
	for _, o := range s.queues {
		changes = append(changes, inventory.Change{Resource: inventory.Queues, Object: o})
	}
	for _, o := range s.jobs {
		changes = append(changes, inventory.Change{Resource: inventory.Jobs, Object: o})
	}
	for _, o := range s.pdbs {
		changes = append(changes, inventory.Change{Resource: "poddisruptionbudgets", Object: o})
	}
	out, err := inventory.New(s.now).With(changes...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// objects returns the objects of the scene that are of built-in APIs, for a fake client.
func (s *scene) objects(more ...*corev1.Pod) []runtime.Object {
	out := []runtime.Object{s.namespace.DeepCopy(), class("high", 1000), class("low", 10), tolerant()}
	for _, o := range s.nodes {
		out = append(out, o.DeepCopy())
	}
	for _, pods := range [][]*corev1.Pod{s.pods, more} {
		for _, o := range pods {
			out = append(out, o.DeepCopy())
		}
	}
	for _, o := range s.pdbs {
		out = append(out, o.DeepCopy())
	}
	return out
}

func class(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-class-" + name)}, Value: value,
	}
}

// tolerant returns a PriorityClass with value 100 whose pods tolerate preemption by priorities
// below 300 for two hours. Its pods never preempt, so Search does not propose this class.
func tolerant() *schedulingv1.PriorityClass {
	c := class("tolerant", 100)
	c.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	c.Annotations = map[string]string{
		preemptiontoleration.AnnotationMinimumPreemptablePriority: "300", preemptiontoleration.AnnotationTolerationSeconds: "7200",
	}
	return c
}

func configuration(t testing.TB) *config.KubeSchedulerConfiguration {
	t.Helper()
	cfg, err := schedulerapp.LoadConfig(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func members(s *scene, group string, count int, gpus int64, priority int32) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		out[i] = s.pending(fmt.Sprintf("%s-%d", group, i), group, gpus, priority)
	}
	return out
}
