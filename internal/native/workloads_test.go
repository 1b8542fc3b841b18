package native

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	fakekubernetes "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// fromYAML returns an object in the form in which clients read it.
func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// podWith returns a pod. annotations and spec are YAML.
func podWith(t *testing.T, name, annotations, spec string) *unstructured.Unstructured {
	t.Helper()
	return fromYAML(t, "apiVersion: v1\nkind: Pod\nmetadata: {namespace: ns, name: "+name+", annotations: "+annotations+"}\nspec: "+spec+"\n")
}

func TestWorkloadRefOfPod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		annotations, spec string
		want              WorkloadRef
		wantOK            bool
	}{
		"nothing":           {annotations: "{}", spec: "{nodeName: node}"},
		"a group":           {annotations: "{a: b}", spec: "{workloadRef: {name: w, podGroup: g}}", want: WorkloadRef{"w", "g", ""}, wantOK: true},
		"a replica":         {annotations: "{}", spec: "{workloadRef: {name: w.x, podGroup: g, podGroupReplicaKey: r}}", want: WorkloadRef{"w.x", "g", "r"}, wantOK: true},
		"half a reference":  {annotations: "{}", spec: "{workloadRef: {name: w}}"},
		"one that is faked": {annotations: "{" + AnnotationWorkloadRef + ": w/g}", spec: "{}"},
		"one that is faked besides": {
			annotations: "{" + AnnotationWorkloadRef + ": v/f}", spec: "{workloadRef: {name: w, podGroup: g}}", want: WorkloadRef{"w", "g", ""}, wantOK: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, err := podOf(podWith(t, "p", c.annotations, c.spec))
			if err != nil {
				t.Fatal(err)
			}
			got, ok := WorkloadRefOf(pod)
			if got != c.want || ok != c.wantOK {
				t.Errorf("got %+v, %t, want %+v", got, ok, c.want)
			}
			group, in := gang.GroupOf(pod)
			if in != c.wantOK || in && group.Name != c.want.GroupName() {
				t.Errorf("it is in %s, %t", group, in)
			}
		})
	}
}

// TestGroupName checks that different references give different names, and that each name is valid
// as the value of a label.
func TestGroupName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 253)
	seen := make(map[string]WorkloadRef)
	for _, ref := range []WorkloadRef{
		{"w", "g", ""}, {"w", "g", "r"}, {"w-g", "r", ""}, {"w", "g-r", ""}, {"w.g", "r", ""}, {long, "g", ""}, {long, "h", ""}, {long, "g", "r"},
	} {
		name := ref.GroupName()
		if other, twice := seen[name]; twice {
			t.Errorf("%v and %v are both %s", ref, other, name)
		}
		seen[name] = ref
		if len(name) > 63 || name != (WorkloadRef{ref.Workload, ref.PodGroup, ref.Replica}).GroupName() {
			t.Errorf("%v is %s", ref, name)
		}
	}
}

func TestGroupOfWorkload(t *testing.T) {
	t.Parallel()
	workload := fromYAML(t, "apiVersion: scheduling.k8s.io/v1alpha1\nkind: Workload\nmetadata: {namespace: ns, name: w}\n"+
		"spec: {podGroups: [{name: one, policy: {gang: {minCount: 4}}}, {name: other, policy: {basic: {}}}]}")
	for group, want := range map[string]*v1alpha1.SchedulingPolicy{
		"one":   {Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 4}},
		"other": {Basic: &v1alpha1.BasicSchedulingPolicy{}},
		"none":  nil,
	} {
		got, ok := GroupOfWorkload(workload, group)
		if ok != (want != nil) || !reflect.DeepEqual(got.SchedulingPolicy, want) {
			t.Errorf("%s: got %+v, %t, want %+v", group, got, ok, want)
		}
	}
}

// TestClientset checks that Get, List and Watch translate the spec.workloadRef of pods, and that
// calls for other objects go to the wrapped client.
func TestClientset(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	want := WorkloadRef{"w", "g", ""}.GroupName()
	pods := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{{Version: "v1", Resource: "pods"}: "PodList"},
		podWith(t, "p", "{}", "{workloadRef: {name: w, podGroup: g}}"))
	c := NewClientset(fakekubernetes.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), pods)
	named := func(pod *corev1.Pod) bool {
		return pod.Spec.SchedulingGroup != nil && *pod.Spec.SchedulingGroup.PodGroupName == want
	}
	got, err := c.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || !named(got) {
		t.Errorf("got %+v, error %v", got, err)
	}
	list, err := c.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || !named(&list.Items[0]) {
		t.Errorf("listed %+v, error %v", list, err)
	}
	w, err := c.CoreV1().Pods(metav1.NamespaceAll).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	event := <-w.ResultChan()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok || event.Type != watch.Added || !named(pod) {
		t.Errorf("the watch has %+v", event)
	}
	if _, err := c.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestDiscoverWorkloads(t *testing.T) {
	t.Parallel()
	list := func(version string, names ...string) *metav1.APIResourceList {
		out := &metav1.APIResourceList{GroupVersion: Group + "/" + version}
		for _, name := range names {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: name, Kind: "Workload"})
		}
		return out
	}
	for name, c := range map[string]struct {
		served []*metav1.APIResourceList
		want   bool
	}{
		"1.34":               {served: []*metav1.APIResourceList{list("v1", "priorityclasses")}},
		"1.35":               {served: []*metav1.APIResourceList{list("v1", "priorityclasses"), list("v1alpha1", "workloads")}, want: true},
		"1.35, the gate off": {served: []*metav1.APIResourceList{list("v1", "priorityclasses"), list("v1alpha1")}},
		"1.36":               {served: []*metav1.APIResourceList{list("v1alpha2", "workloads", "podgroups")}},
		"1.37":               {served: []*metav1.APIResourceList{list("v1beta1", "workloads", "podgroups"), list("v1alpha3", "workloads")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DiscoverWorkloads(&fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: c.served}})
			if want := (schema.GroupVersionKind{Group: Group, Version: workloadsVersion, Kind: "Workload"}); (err == nil) != c.want || c.want && got != want {
				t.Errorf("found %v, error %v", got, err)
			}
		})
	}
}
