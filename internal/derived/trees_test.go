package derived_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// replicated returns an inventory with a LeaderWorkerSet of two replicas, whose groups form a tree.
// It has one pod for each replica, and more objects.
func replicated(t *testing.T, pods []*corev1.Pod, more ...inventory.Change) *inventory.Inventory {
	t.Helper()
	roots, err := derived.Roots(configuration(t))
	if err != nil {
		t.Fatal(err)
	}
	set := &unstructured.Unstructured{}
	err = yaml.Unmarshal([]byte(`apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {namespace: ns, name: serve, uid: set, annotations: {reprieve.dev/gang: "true", reprieve.dev/gang-per: tree}}
spec: {replicas: 2, leaderWorkerTemplate: {size: 1, restartPolicy: RecreateGroupOnPodRestart}}
`), &set.Object)
	if err != nil {
		t.Fatal(err)
	}
	changes := []inventory.Change{
		{Resource: "namespaces", Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}},
		{Resource: "leaderworkersets.leaderworkerset.x-k8s.io", Object: set},
	}
	changes = append(changes, more...)
	for _, pod := range pods {
		changes = append(changes, inventory.Change{Resource: inventory.Pods, Object: pod})
	}
	objects, err := inventory.New(time.Unix(1e9, 0)).With(changes...)
	if err != nil {
		t.Fatal(err)
	}
	return objects.WithRoots(roots)
}

// replicas returns a pending pod for each of two replicas.
func replicas() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, unit := range []string{"0", "1"} {
		const label = "leaderworkerset.sigs.k8s.io/"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "serve-" + unit, UID: types.UID(unit),
			Labels: map[string]string{label + "name": "serve", label + "group-index": unit, label + "worker-index": "0"},
		}}
		pod.Spec.SchedulerName, pod.Status.Phase = "reprieve-scheduler", corev1.PodPending
		pods = append(pods, pod)
	}
	return pods
}

// TestCompleteTree checks that Complete adds the tree of a LeaderWorkerSet, and that the pods
// belong to it.
func TestCompleteTree(t *testing.T) {
	t.Parallel()
	pods := replicas()
	completed, groups, err := derived.Complete(t.Context(), replicated(t, pods), configuration(t))
	if err != nil {
		t.Fatal(err)
	}
	composites, err := inventory.Decode[*v1alpha1.CompositePodGroup](completed, inventory.Composites)
	if err != nil || len(composites) != 1 || composites[0].Spec.SchedulingPolicy.Gang.MinGroupCount != 2 || composites[0].Spec.Priority == nil {
		t.Fatalf("the trees are %+v, error %v", composites, err)
	}
	trees, keys, err := derived.Trees(completed, groups)
	if err != nil || len(keys) != 3 {
		t.Fatalf("the groups are %v, error %v", keys, err)
	}
	want := gang.TreeKey("ns", composites[0].Name)
	for _, pod := range pods {
		if key, ok := trees.Membership(groups).GroupOf(pod); !ok || key != want {
			t.Errorf("pod %s is placed with %v, want %v", pod.Name, key, want)
		}
	}
	g, _ := trees.Group(want)
	if members := gang.MembersOf(pods); gang.Gate(want, g, &members) != (gang.Verdict{}) {
		t.Errorf("the tree with all pods is blocked: %+v", gang.Gate(want, g, &members))
	}
	if members := gang.MembersOf(pods[:1]); gang.Gate(want, g, &members).Reason != v1alpha1.ReasonNotEnoughGroups {
		t.Errorf("the tree without a replica is not blocked: %+v", gang.Gate(want, g, &members))
	}
}

// TestCompleteTreeBesideRunningPart checks the tree of an object with a replica that runs outside
// of the tree: the tree does not need it.
func TestCompleteTreeBesideRunningPart(t *testing.T) {
	t.Parallel()
	pods := replicas()
	alone := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", OwnerReferences: []metav1.OwnerReference{{UID: "set"}}}}
	_, groups, err := derived.Complete(t.Context(), replicated(t, pods), configuration(t))
	if err != nil {
		t.Fatal(err)
	}
	key, _ := groups.GroupOf(pods[0])
	part, _ := groups.Group(key)
	alone.Name, pods[0].Spec.NodeName = key.Name, "node"
	completed, groups, err := derived.Complete(t.Context(), replicated(t, pods, inventory.Change{Resource: inventory.PodGroups, Object: alone}), configuration(t))
	if err != nil {
		t.Fatal(err)
	}
	composites, err := inventory.Decode[*v1alpha1.CompositePodGroup](completed, inventory.Composites)
	if err != nil || len(composites) != 1 || composites[0].Spec.SchedulingPolicy.Gang.MinGroupCount != 1 {
		t.Errorf("the trees are %+v, error %v", composites, err)
	}
	if count, ok := groups.MinCount(part.Parent); count != 1 || !ok {
		t.Errorf("the tree needs %d groups, want 1", count)
	}
}
