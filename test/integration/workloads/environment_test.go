package workloads

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// env is a cluster that serves the groups of scheduling.k8s.io.
type env struct {
	*stage.Stage
	// version is the served version of scheduling.k8s.io, such as v1beta1.
	version string
}

// fieldGates has feature gates. If they are off, an API server of version 1.37 drops some fields of
// PodGroups.
const fieldGates = "PodGroupPreemptionPolicy=true,TopologyAwareWorkloadScheduling=true," +
	"DRAWorkloadResourceClaims=true,CompositePodGroup=true"

// start starts a playground. gates maps the name of a component to additional feature gates.
func start(t *testing.T, gates map[string]string) *env {
	t.Helper()
	extra := make(map[string][]string)
	for component, list := range gates {
		extra[component] = []string{"--feature-gates=" + list}
	}
	s := stage.New(t, playground.Options{NativeWorkloadAPI: true, ExtraArgs: extra})
	e := &env{Stage: s, version: stage.Kubernetes(t).WorkloadAPI}
	if e.version == "" {
		t.Fatalf("Kubernetes 1.%d has no groups", stage.Kubernetes(t).Minor)
	}
	if e.version != "v1alpha1" {
		e.Stage = s.With(stage.NativeGroups(t))
	}
	e.CreateClasses(map[string]int32{"low": 100, "high": 1000})
	return e
}

// jobGates returns feature gates that make the Job controller create a PodGroup for each Job. It
// returns none for versions where these PodGroups would be gangs.
func jobGates(t *testing.T) map[string]string {
	t.Helper()
	if stage.Kubernetes(t).Minor < 37 {
		return nil
	}
	const gate = "WorkloadWithJob=true"
	return map[string]string{playground.APIServer: gate, playground.ControllerManager: gate}
}

// in creates a namespace for a subtest.
func (e *env) in(t *testing.T) *env {
	t.Helper()
	return &env{Stage: e.In(t), version: e.version}
}

// hasWorkloadRefs reports whether pods name a group within a Workload, instead of a PodGroup.
func (e *env) hasWorkloadRefs() bool { return e.version == "v1alpha1" }

// group creates a group: a gang if minCount is positive, and otherwise a group with the basic
// policy.
func (e *env) group(name string, minCount int64, class string) *unstructured.Unstructured {
	e.Helper()
	if e.hasWorkloadRefs() {
		groups := []any{map[string]any{"name": "workers", "policy": schedulingPolicy(minCount)}}
		u := e.object("Workload", name, map[string]any{"podGroups": groups})
		e.Create(u)
		return u
	}
	spec := map[string]any{}
	if class != "" {
		spec["priorityClassName"] = class
	}
	return e.podGroup(name, minCount, spec)
}

// podGroup creates a PodGroup. spec has additional fields of its spec.
func (e *env) podGroup(name string, minCount int64, spec map[string]any) *unstructured.Unstructured {
	e.Helper()
	u := e.newPodGroup(name, minCount, spec)
	e.Create(u)
	return u
}

func (e *env) newPodGroup(name string, minCount int64, spec map[string]any) *unstructured.Unstructured {
	spec["schedulingPolicy"] = schedulingPolicy(minCount)
	return e.object("PodGroup", name, spec)
}

func (e *env) object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	u := native.NewObject(schema.GroupVersionKind{Group: native.Group, Version: e.version, Kind: kind})
	u.SetNamespace(e.Namespace)
	u.SetName(name)
	u.Object["spec"] = spec
	return u
}

func schedulingPolicy(minCount int64) map[string]any {
	if minCount > 0 {
		return map[string]any{"gang": map[string]any{"minCount": minCount}}
	}
	return map[string]any{"basic": map[string]any{}}
}

// ref returns a pod's reference to a group within a Workload.
func ref(group, replica string) native.WorkloadRef {
	return native.WorkloadRef{Workload: group, PodGroup: "workers", Replica: replica}
}

// member creates a pod of a group. replica is ignored if pods name a PodGroup.
func (e *env) member(name, group, replica, class string, cpus int64, change ...func(*corev1.Pod)) {
	e.Helper()
	pod := stage.NewPod(e.Namespace, name, class, cpus)
	for _, f := range change {
		f(pod)
	}
	if e.hasWorkloadRefs() {
		e.refers(pod, ref(group, replica))
		return
	}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	e.Create(pod)
}

// refers creates a pod with the field spec.workloadRef. The Go type of pods does not have this
// field any more.
func (e *env) refers(pod *corev1.Pod, to native.WorkloadRef) {
	e.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		e.Fatal(err)
	}
	named := map[string]any{"name": to.Workload, "podGroup": to.PodGroup}
	if to.Replica != "" {
		named["podGroupReplicaKey"] = to.Replica
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := unstructured.SetNestedMap(u.Object, named, "spec", "workloadRef"); err != nil {
		e.Fatal(err)
	}
	e.Create(u)
	if _, kept, err := unstructured.NestedMap(u.Object, "spec", "workloadRef"); err != nil || !kept {
		e.Fatalf("the API server has dropped spec.workloadRef (%v)", err)
	}
}
