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

// env is a cluster that serves its own groups.
type env struct {
	*stage.Stage
	// version is that of scheduling.k8s.io.
	version string
}

// start runs a playground, whose Jobs have PodGroups of their own where they have basic ones.
func start(t *testing.T) *env {
	t.Helper()
	extra := make(map[string][]string)
	if stage.Kubernetes(t).Minor >= 37 {
		for _, component := range []string{playground.APIServer, playground.ControllerManager} {
			extra[component] = []string{"--feature-gates=WorkloadWithJob=true"}
		}
	}
	s := stage.New(t, playground.Options{NativeWorkloadAPI: true, ExtraArgs: extra})
	e := &env{Stage: s, version: stage.Kubernetes(t).WorkloadAPI}
	if e.version == "" {
		t.Fatalf("Kubernetes 1.%d has no groups", stage.Kubernetes(t).Minor)
	}
	e.CreateClasses(map[string]int32{"low": 100, "high": 1000})
	return e
}

// in is a namespace of its own for a subtest.
func (e *env) in(t *testing.T) *env {
	t.Helper()
	return &env{Stage: e.In(t), version: e.version}
}

// hasWorkloadRefs is true where pods name a group of a Workload.
func (e *env) hasWorkloadRefs() bool { return e.version == "v1alpha1" }

// group creates a gang that needs minCount members, or a group without any such policy for 0.
func (e *env) group(name string, minCount int64, class string) *unstructured.Unstructured {
	e.Helper()
	policy := map[string]any{"basic": map[string]any{}}
	if minCount > 0 {
		policy = map[string]any{"gang": map[string]any{"minCount": minCount}}
	}
	kind, spec := "PodGroup", map[string]any{"schedulingPolicy": policy}
	if e.hasWorkloadRefs() {
		kind, spec = "Workload", map[string]any{"podGroups": []any{map[string]any{"name": "workers", "policy": policy}}}
	} else if class != "" {
		spec["priorityClassName"] = class
	}
	u := native.NewObject(schema.GroupVersionKind{Group: native.Group, Version: e.version, Kind: kind})
	u.SetNamespace(e.Namespace)
	u.SetName(name)
	u.Object["spec"] = spec
	e.Create(u)
	return u
}

// ref is how pods name a group where they name one of a Workload.
func ref(group, replica string) native.WorkloadRef {
	return native.WorkloadRef{Workload: group, PodGroup: "workers", Replica: replica}
}

// member creates a pod of a group; replica is for those of Workloads.
func (e *env) member(name, group, replica, class string, cpus int64) {
	e.Helper()
	if e.hasWorkloadRefs() {
		e.refers(name, ref(group, replica), class, cpus)
		return
	}
	pod := stage.NewPod(e.Namespace, name, class, cpus)
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	e.Create(pod)
}

// refers creates a pod with a spec.workloadRef, which the Go type does not have any more.
func (e *env) refers(name string, to native.WorkloadRef, class string, cpus int64) {
	e.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stage.NewPod(e.Namespace, name, class, cpus))
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
