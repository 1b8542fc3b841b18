package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/openb"
	"github.com/reprieve-dev/reprieve/internal/scenario"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func nodeNamed(name string) *corev1.Node {
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), gpu: resource.MustParse("4")}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Allocatable: has, Capacity: has},
	}
}

// podNamed returns a pod with one GPU. If node is empty, the pod is pending. Otherwise the pod has
// run on that node for an hour.
func podNamed(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	asks := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), gpu: resource.MustParse("1")}
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName: node, SchedulerName: "reprieve-scheduler", Priority: ptr.To(int32(10)),
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: asks, Limits: corev1.ResourceList{gpu: asks[gpu]}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if node != "" {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: noon.Add(-time.Hour)}}
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func of(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "o", UID: "o", Controller: ptr.To(true)}}
	}
}

func in(group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPodGroup] = group }
}

func until(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds }
}

// gangOfTwo returns a gang of two members that is preempted as a whole.
func gangOfTwo() *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gang", UID: "gang"},
	}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 2}}
	pg.Spec.Priority, pg.Spec.QueueName, pg.Spec.DisruptionMode = ptr.To(int32(50)), ptr.To("team"), ptr.To(v1alpha1.DisruptionModePodGroup)
	return pg
}

// stock returns a cluster with two nodes, a cordoned node, a queue, a gang and the given pods.
func stock(t *testing.T, pods ...*corev1.Pod) *inventory.Inventory {
	t.Helper()
	cordoned := nodeNamed("c")
	cordoned.Spec.Unschedulable = true
	changes := []inventory.Change{
		{Resource: inventory.Nodes, Object: nodeNamed("a")}, {Resource: inventory.Nodes, Object: nodeNamed("b")}, {Resource: inventory.Nodes, Object: cordoned},
		{Resource: inventory.Queues, Object: &v1alpha1.Queue{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Queue"},
			ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.QueueSpec{Quota: corev1.ResourceList{gpu: resource.MustParse("6")}},
		}},
		{Resource: inventory.PodGroups, Object: gangOfTwo()},
	}
	for _, pod := range pods {
		changes = append(changes, inventory.Change{Resource: inventory.Pods, Object: pod})
	}
	out, err := inventory.New(noon).With(changes...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func made(t *testing.T, objects *inventory.Inventory) (*simulation.Input, *scenario.Facts) {
	t.Helper()
	cfg, err := schedulerapp.LoadConfig(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	in, facts, err := scenario.FromCluster(t.Context(), objects, cfg, scenario.Assumptions{Lasts: 24 * time.Hour, Runs: 30 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return in, facts
}

// TestFromCluster checks which work is running and pending at the start, and how long it runs.
func TestFromCluster(t *testing.T) {
	t.Parallel()
	leaving := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/f"}
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"work goes on for as long as it has run": {pods: []*corev1.Pod{podNamed("p", "a")}, want: "p 1/1 on [a] for 1h0m0s after 1h0m0s"},
		"or until its deadline":                  {pods: []*corev1.Pod{podNamed("p", "a", until(5400))}, want: "p 1/1 on [a] for 30m0s after 1h0m0s"},
		"a minute at least":                      {pods: []*corev1.Pod{podNamed("p", "a", until(60))}, want: "p 1/1 on [a] for 1m0s after 1h0m0s"},
		"services do not end":                    {pods: []*corev1.Pod{podNamed("p", "a", of("ReplicaSet"))}, want: "p 1/1 on [a] for 24h1m0s after 1h0m0s"},
		"pending work has its time":              {pods: []*corev1.Pod{podNamed("p", "")}, want: "p 1/1 for 30m0s"},
		"or its deadline as well":                {pods: []*corev1.Pod{podNamed("p", "", until(60))}, want: "p 1/1 for 1m0s"},
		"a gang that runs":                       {pods: []*corev1.Pod{podNamed("p", "a", in("gang")), podNamed("q", "b", in("gang")), podNamed("r", "", in("gang"))}, want: "gang 2/2 on [a b] whole 50 team for 1h0m0s after 1h0m0s"},
		"a gang that waits":                      {pods: []*corev1.Pod{podNamed("p", "", in("gang")), podNamed("q", "", in("gang"))}, want: "gang 2/2 whole 50 team for 30m0s"},
		"a gang that lacks members":              {pods: []*corev1.Pod{podNamed("p", "", in("gang"))}},
		"what leaves is gone":                    {pods: []*corev1.Pod{podNamed("p", "a", leaving)}},
		"what is on a cordoned node":             {pods: []*corev1.Pod{podNamed("p", "c")}},
		"what belongs to the node":               {pods: []*corev1.Pod{podNamed("p", "a", of("DaemonSet"))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input, facts := made(t, stock(t, c.pods...))
			var got []string
			for i := range input.Work {
				w := &input.Work[i]
				word := fmt.Sprintf("%s %d/%d", w.Name, w.MinCount, len(w.Requests))
				if w.On != nil {
					word += fmt.Sprintf(" on %v", w.On)
				}
				if w.Whole {
					word += fmt.Sprintf(" whole %d %s", w.Priority, w.Queue)
				}
				word += fmt.Sprintf(" for %s", w.Runs)
				if w.Ran > 0 {
					word += fmt.Sprintf(" after %s", w.Ran)
				}
				got = append(got, word)
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("The work is %q, want %q", got, c.want)
			}
			if len(input.Nodes) != 2 || facts.Cordoned != 1 || len(input.Queues) != 1 || facts.Running+facts.Pending != len(input.Work) {
				t.Errorf("There are %d nodes, %d queues, %+v", len(input.Nodes), len(input.Queues), facts)
			}
			free := input.Nodes[0].Allocatable[slices.Index(input.Resources, string(gpu))]
			if want := int64(4 - facts.Daemons); free != want {
				t.Errorf("Node a has %d GPUs for work, want %d", free, want)
			}
			if _, err := simulation.Run(t.Context(), input, simulation.Policy{Name: "q", Rule: simulation.ByQueues}, simulation.Options{Lasts: time.Hour}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDerivedGang checks that pods that name no PodGroup are a gang in the simulation if their Job
// requests a gang.
func TestDerivedGang(t *testing.T) {
	t.Parallel()
	ofJob := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "train", Controller: ptr.To(true)}}
	}
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, Spec: batchv1.JobSpec{Parallelism: ptr.To(int32(2))},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "train", UID: "train", Annotations: map[string]string{v1alpha1.AnnotationGang: "true"}},
	}
	cfg, err := schedulerapp.LoadConfig(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	roots, err := derived.Roots(cfg)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := stock(t, podNamed("p", "a", ofJob), podNamed("q", "b", ofJob)).With(
		inventory.Change{Resource: "jobs.batch", Object: job},
		inventory.Change{Resource: "namespaces", Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	completed, _, err := derived.Complete(t.Context(), objects.WithRoots(roots), cfg)
	if err != nil {
		t.Fatal(err)
	}
	input, _ := made(t, completed)
	if len(input.Work) != 1 || !input.Work[0].Gang || input.Work[0].MinCount != 2 || !slices.Equal(input.Work[0].On, []string{"a", "b"}) {
		t.Errorf("The work is %+v", input.Work)
	}
	if _, err := simulation.Run(t.Context(), input, simulation.Policy{Name: "q", Rule: simulation.ByQueues}, simulation.Options{Lasts: time.Hour}); err != nil {
		t.Error(err)
	}
}

// TestAddTrace checks that AddTrace converts all amounts of GPUs to thousandths, and that the added
// work is in the cluster's queues.
func TestAddTrace(t *testing.T) {
	t.Parallel()
	input, _ := made(t, stock(t, podNamed("p", "a")))
	trace := &openb.Trace{
		Nodes: []openb.Node{{Name: "other", MilliCPU: 1, MiB: 1, GPUs: 99}},
		Pods:  []openb.Pod{{Name: "t", MilliCPU: 500, MilliGPU: 250, QoS: "LS", Deleted: 3600}},
	}
	scenario.AddTrace(input, trace, openb.Shape{})
	at := slices.Index(input.Resources, string(gpu))
	if len(input.Work) != 2 || input.Work[0].Requests[0][at] != 1000 || input.Work[1].Requests[0][at] != 250 || input.Work[1].Queue != "team" {
		t.Fatalf("The work is %+v", input.Work)
	}
	if input.Nodes[0].Allocatable[at] != 4000 || input.Queues[0].Quota[at] != 6000 || input.PerGPU != 1000 || len(input.Nodes) != 2 {
		t.Errorf("The nodes are %+v, the queues %+v", input.Nodes, input.Queues)
	}
	if cpu := input.Work[1].Requests[0][slices.Index(input.Resources, "cpu")]; cpu != 500 {
		t.Errorf("It asks for %d thousandths of a CPU, want 500", cpu)
	}
}
