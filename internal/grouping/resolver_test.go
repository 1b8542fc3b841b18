package grouping

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

const profile = "reprieve-scheduler"

// world is a Resolver with the pods of a test.
type world struct {
	*Resolver
	t  *testing.T
	mu sync.Mutex
	// looked is called after each call of Anchored, without holding mu. It may be nil.
	looked func()
	// mu protects the fields below.
	pods    []*corev1.Pod
	moved   []string
	changed []types.NamespacedName
}

func (w *world) Anchored(anchor string) []*corev1.Pod {
	if w.looked != nil {
		defer w.looked()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.pods), func(pod *corev1.Pod) bool { return !slices.Contains(w.AnchorsOf(pod), anchor) })
}

func (w *world) MembershipChanged(pod *corev1.Pod, _ types.NamespacedName, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved = append(w.moved, pod.Name)
}

func newWorld(t *testing.T, always bool, kinds ...string) *world {
	t.Helper()
	var rules []*Rule
	for _, kind := range kinds {
		rules = append(rules, BuiltIn()[kind])
	}
	w := &world{t: t}
	r, err := NewResolver(map[string]*Settings{profile: NewSettings(rules, always)}, func(key types.NamespacedName) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed = append(w.changed, key)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Attach(w)
	r.SetNamespace("ns", nil)
	w.Resolver = r
	return w
}

// object adds an object. what is "Kind/name" and also becomes the UID. owner is the UID of the
// owner; it is empty for none. annotations and spec are the contents of YAML maps.
func (w *world) object(what, owner, annotations, spec string) {
	w.t.Helper()
	kind, name, _ := strings.Cut(what, "/")
	rule := BuiltIn()[kind]
	u := objectFrom(w.t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {namespace: ns, name: %s, uid: %s, annotations: {%s}}\nspec: {%s}\n",
		rule.Kind.GroupVersion(), kind, name, what, annotations, spec))
	if owner != "" {
		u.SetOwnerReferences([]metav1.OwnerReference{ownerRef(owner)})
	}
	w.Set(rule.Kind.GroupKind(), u)
}

func ownerRef(what string) metav1.OwnerReference {
	kind, name, _ := strings.Cut(what, "/")
	apiVersion := "apps/v1"
	if rule, ok := BuiltIn()[kind]; ok {
		apiVersion = rule.Kind.GroupVersion().String()
	}
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(what), Controller: ptr.To(true)}
}

// pod adds a pod. owner is the UID of its controller; labels are pairs of a name and a value.
func (w *world) pod(name, owner string, labels ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}},
		Spec:       corev1.PodSpec{SchedulerName: profile},
	}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{ownerRef(owner)}
	}
	for i := 0; i < len(labels); i += 2 {
		pod.Labels[labels[i]] = labels[i+1]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = append(w.pods, pod)
	return pod
}

// group returns the name of a pod's group without its hash. It is empty for none. A blocked pod is
// a test failure.
func (w *world) group(pod *corev1.Pod) string {
	w.t.Helper()
	if v := w.Hold(pod); v != (gang.Verdict{}) {
		w.t.Errorf("%s is held back: %s", pod.Name, v.Message)
	}
	key, ok := w.GroupOf(pod)
	if !ok {
		return ""
	}
	parts := strings.Split(key.Name, "-")
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return len(p) == hashLength }), "-")
}

func (w *world) held(pod *corev1.Pod, reason string, phrases ...string) {
	w.t.Helper()
	v := w.Hold(pod)
	if v.Reason != reason {
		w.t.Errorf("%s is held back for %q (%s), want %s", pod.Name, v.Reason, v.Message, reason)
	}
	for _, phrase := range phrases {
		if !strings.Contains(v.Message, phrase) {
			w.t.Errorf("%s hears %q, which does not say %q", pod.Name, v.Message, phrase)
		}
	}
	if key, ok := w.GroupOf(pod); ok {
		w.t.Errorf("%s is held back, and a member of %s", pod.Name, key)
	}
}

const gangOn = `reprieve.dev/gang: "true"`

func TestOptIn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object, namespace string
		always            bool
		want              bool
	}{
		"nothing is said":                {"", "", false, false},
		"the object asks":                {"true", "", false, true},
		"the namespace asks":             {"", "true", false, true},
		"the object asks not":            {"false", "true", true, false},
		"the object asks all the same":   {"true", "false", false, true},
		"the profile has all":            {"", "", true, true},
		"the namespace asks not":         {"", "false", true, false},
		"the object asks not, by itself": {"false", "", true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.always, "Job")
			if tt.namespace != "" {
				w.SetNamespace("ns", map[string]string{v1alpha1.AnnotationGang: tt.namespace})
			}
			annotations := ""
			if tt.object != "" {
				annotations = fmt.Sprintf("%s: %q", v1alpha1.AnnotationGang, tt.object)
			}
			w.object("Job/train", "", annotations, "parallelism: 4")
			if got := w.group(w.pod("p", "Job/train")) != ""; got != tt.want {
				t.Errorf("it gets a group: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	const role, unit, worker, name = "jobset.sigs.k8s.io/replicatedjob-name", "leaderworkerset.sigs.k8s.io/group-index",
		"leaderworkerset.sigs.k8s.io/worker-index", "leaderworkerset.sigs.k8s.io/name"
	const roles = "replicatedJobs: [{name: a, template: {spec: {parallelism: 2}}}, {name: b, replicas: 2, template: {spec: {parallelism: 3}}}]"
	w := newWorld(t, false, "Job", "JobSet", "LeaderWorkerSet", "RayJob", "RayCluster", "SparkApplication")
	w.object("JobSet/set", "", gangOn, roles)
	w.object("Job/set-a", "JobSet/set", "", "parallelism: 2")
	w.object("JobSet/each", "", gangOn+`, reprieve.dev/gang-per: role`, roles)
	w.object("Job/each-b", "JobSet/each", "", "parallelism: 3")
	w.object("JobSet/order", "", gangOn, "startupPolicy: {startupPolicyOrder: InOrder}, "+roles)
	w.object("Job/order-a", "JobSet/order", "", "parallelism: 2")
	w.object("LeaderWorkerSet/serve", "", gangOn, "replicas: 2, leaderWorkerTemplate: {size: 4}")
	w.object("LeaderWorkerSet/ready", "", gangOn, "replicas: 2, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4}")
	w.object("RayJob/ray", "", gangOn, "rayClusterSpec: {workerGroupSpecs: [{groupName: gpu, replicas: 2}]}")
	w.Set(schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}, clusterOf(t, "RayJob/ray"))
	w.object("RayCluster/stored", "", gangOn, "workerGroupSpecs: [{groupName: gpu, replicas: 2}]")
	w.object("Job/redis-cleanup", "RayCluster/stored", "", "parallelism: 1")
	w.object("SparkApplication/spark", "", gangOn, "executor: {instances: 3}")
	w.object("Job/plain", "", gangOn+`, reprieve.dev/gang-per: role`, "parallelism: 2")
	w.object("LeaderWorkerSet/apart", "", gangOn+`, reprieve.dev/gang-per: role`, "replicas: 2, leaderWorkerTemplate: {size: 4}")
	w.object("RayCluster/scale", "", gangOn+`, reprieve.dev/gang-per: role`,
		"enableInTreeAutoscaling: true, workerGroupSpecs: [{groupName: gpu, replicas: 0, minReplicas: 0, maxReplicas: 5}, {groupName: cpu_, replicas: 2, minReplicas: 2}]")
	w.object("SparkApplication/dynamic", "", gangOn, "executor: {instances: 3}, dynamicAllocation: {enabled: true, minExecutors: 0}")
	named := w.pod("named", "Job/set-a", role, "a", v1alpha1.LabelPodGroup, "mine")
	tests := map[string]struct {
		pod     *corev1.Pod
		want    string
		minimum int
	}{
		"of a JobSet":                          {w.pod("1", "Job/set-a", role, "a"), "set", 8},
		"of a JobSet by role":                  {w.pod("2", "Job/each-b", role, "b"), "each-b", 6},
		"of a JobSet in order":                 {w.pod("3", "Job/order-a", role, "a"), "order-a", 2},
		"one that names its group":             {named, "mine", 0},
		"a leader":                             {w.pod("4", "StatefulSet/serve", name, "serve", unit, "0", worker, "0"), "serve-0", 4},
		"a worker of another replica":          {w.pod("5", "StatefulSet/serve-1", name, "serve", unit, "1", worker, "3"), "serve-1", 4},
		"a leader that has to be ready":        {w.pod("6", "StatefulSet/ready", name, "ready", unit, "0", worker, "0"), "", 0},
		"a worker that waits for it":           {w.pod("7", "StatefulSet/ready-0", name, "ready", unit, "0", worker, "1"), "ready-0", 3},
		"a head, by way of a cluster":          {w.pod("8", "RayCluster/ray-1", "ray.io/group", "headgroup"), "ray", 3},
		"what clears away after a cluster":     {w.pod("19", "Job/redis-cleanup", "ray.io/group", "headgroup", "ray.io/node-type", "redis-cleanup"), "", 0},
		"a driver":                             {w.pod("9", "SparkApplication/spark", "sparkoperator.k8s.io/app-name", "spark", "spark-role", "driver"), "", 0},
		"an executor, whose owner is a driver": {w.pod("10", "Pod/driver", "sparkoperator.k8s.io/app-name", "spark", "spark-role", "executor"), "spark", 3},
		"of a Job that has no roles, by role":  {w.pod("13", "Job/plain"), "plain", 2},
		"a leader, by role":                    {w.pod("14", "StatefulSet/apart", name, "apart", unit, "0", worker, "0"), "apart-0-0", 1},
		"its workers, by role":                 {w.pod("15", "StatefulSet/apart-0", name, "apart", unit, "0", worker, "2"), "apart-0-others", 3},
		"of a role that needs none":            {w.pod("16", "RayCluster/scale", "ray.io/group", "gpu"), "scale-gpu", 1},
		"of a role that no name can have":      {w.pod("17", "RayCluster/scale", "ray.io/group", "cpu_"), "scale-cpu", 2},
		"an executor of none":                  {w.pod("18", "Pod/driver", "sparkoperator.k8s.io/app-name", "dynamic", "spark-role", "executor"), "dynamic", 1},
		"of a StatefulSet":                     {w.pod("11", "StatefulSet/db"), "", 0},
		"of nothing":                           {w.pod("12", ""), "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{Resolver: w.Resolver, t: t}
			if got := w.group(tt.pod); got != tt.want {
				t.Errorf("its group is %q, want %q", got, tt.want)
			}
			key, _ := w.GroupOf(tt.pod)
			if flaws := validation.NameIsDNSSubdomain(key.Name, false); tt.want != "" && len(flaws) > 0 {
				t.Errorf("no PodGroup can have the name %s: %s", key.Name, flaws)
			}
			if g, ok := w.Group(key); ok != (tt.minimum > 0) || ok && (g.MinCount != tt.minimum || g.Ended) {
				t.Errorf("the group is %+v, want %d members", g, tt.minimum)
			}
			if tt.minimum > 0 && !slices.ContainsFunc(w.Anchors(key), func(a string) bool { return slices.Contains(w.AnchorsOf(tt.pod), a) }) {
				t.Errorf("%s is not found by any of %q", tt.pod.Name, w.Anchors(key))
			}
		})
	}
}

// TestHeldBack checks that a pod is blocked until all facts about its group are known.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job", "JobSet", "LeaderWorkerSet")
	first := w.pod("first", "Job/late")
	w.held(first, ReasonOwnerUnknown, "Job late")
	w.object("Job/late", "", gangOn, "parallelism: 2")
	if got := w.group(first); got != "late" || !slices.Equal(w.moved, []string{"first"}) {
		t.Errorf("its group is %q, and %q have been told", got, w.moved)
	}
	w.object("Job/under", "JobSet/unknown", "", "parallelism: 2")
	w.held(w.pod("under", "Job/under"), ReasonOwnerUnknown, "JobSet unknown")
	w.setTrouble(w.kinds[schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}], "it may not list and watch jobsets")
	w.held(w.pod("under-2", "Job/under"), ReasonOwnerUnknown, "JobSet unknown", "may not list and watch jobsets")

	w.object("Job/odd", "", `reprieve.dev/gang: "yes"`, "parallelism: 2")
	w.held(w.pod("odd", "Job/odd"), ReasonNotGroupable, "Job odd", "reprieve.dev/gang", `"yes"`)
	w.object("Job/topology", "", gangOn+", reprieve.dev/topology-key: a b", "parallelism: 2")
	w.held(w.pod("topology", "Job/topology"), ReasonNotGroupable, "topology-key", "a b")
	for name, c := range map[string]struct{ keys, want string }{
		"invalid":  {"rack,a b", `"a b" is not`},
		"empty":    {"rack,", `"" is not`},
		"twice":    {"rack, rack", "rack twice"},
		"required": {"rack,zone", "zone is also the required key"},
		"many":     {"a,b,c,d,e", "has 5 keys; at most 4"},
	} {
		w.object("Job/"+name, "", gangOn+`, reprieve.dev/topology-key: zone, reprieve.dev/preferred-topology-key: "`+c.keys+`"`, "parallelism: 2")
		w.held(w.pod(name, "Job/"+name), ReasonNotGroupable, "preferred-topology-key", c.want)
	}
	w.object("Job/mode", "", gangOn+", reprieve.dev/disruption-mode: All", "parallelism: 2")
	w.held(w.pod("mode", "Job/mode"), ReasonNotGroupable, "disruption-mode")
	w.object("Job/class", "", gangOn+", reprieve.dev/priority-class: system-node-critical", "parallelism: 2")
	w.held(w.pod("class", "Job/class"), ReasonNotGroupable, "system-node-critical", "kube-system")
	w.object("JobSet/order", "", gangOn+", reprieve.dev/gang-per: object", "startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [{name: a, template: {spec: {}}}]")
	w.object("Job/order-a", "JobSet/order", "", "")
	w.held(w.pod("order", "Job/order-a", "jobset.sigs.k8s.io/replicatedjob-name", "a"), ReasonNotGroupable, "one after the other")
	w.object("JobSet/set", "", gangOn, "replicatedJobs: [{name: a, template: {spec: {}}}]")
	w.object("Job/set-b", "JobSet/set", "", "")
	w.held(w.pod("role", "Job/set-b", "jobset.sigs.k8s.io/replicatedjob-name", "b"), ReasonNotGroupable, `"b"`)
	w.object("LeaderWorkerSet/serve", "", gangOn, "replicas: 2, leaderWorkerTemplate: {size: 4}")
	w.held(w.pod("unit", "StatefulSet/x", "leaderworkerset.sigs.k8s.io/name", "serve", "leaderworkerset.sigs.k8s.io/worker-index", "1"), ReasonNotGroupable, "group-index")
}

// TestRoles checks the number of members that a gang needs in each role.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job", "RayCluster")
	w.object("RayCluster/ray", "", gangOn, "enableInTreeAutoscaling: true, workerGroupSpecs: [{groupName: gpu, replicas: 4, minReplicas: 2, maxReplicas: 5}]")
	w.object("Job/train", "", gangOn, "parallelism: 3")
	// relabeled returns a pod that got its node in one role and later got the label of another
	// role.
	relabeled := func(name, role, label string) *corev1.Pod {
		pod := w.pod(name, "RayCluster/ray", "ray.io/group", label)
		pod.Spec.NodeName, pod.Annotations = "n", map[string]string{v1alpha1.AnnotationPlacedAs: `{"group":"","priority":0,"role":"` + role + `"}`}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		return pod
	}
	tests := map[string]struct {
		pod    *corev1.Pod
		role   string
		needed int
	}{
		"a worker that was relabeled": {relabeled("relabeled", "gpu", "headgroup"), "gpu", 2},
		"one of a role that was":      {relabeled("former", "tpu", "gpu"), "gpu", 2},
		"a head":                      {w.pod("head", "RayCluster/ray", "ray.io/group", "headgroup"), "headgroup", 1},
		"a worker":                    {w.pod("worker", "RayCluster/ray", "ray.io/group", "gpu"), "gpu", 2},
		"of a Job":                    {w.pod("train", "Job/train"), "", 3},
		"one that names its group":    {w.pod("named", "Job/train", v1alpha1.LabelPodGroup, "mine"), "", 0},
		"one that is in no gang":      {w.pod("alone", ""), "", 0},
		"one of a role that is not":   {w.pod("other", "RayCluster/ray", "ray.io/group", "cpu"), "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if role, needed := w.RoleOf(tt.pod); role != tt.role || needed != tt.needed {
				t.Errorf("it is %q, of which %d are needed, want %q and %d", role, needed, tt.role, tt.needed)
			}
		})
	}
}

// TestGroupOfAnObjectAbove checks that pods join the group of their JobSet when their Job becomes
// known, and that the JobSet's group is reported as changed.
func TestGroupOfAnObjectAbove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job", "JobSet")
	w.object("JobSet/set", "", gangOn, "replicatedJobs: [{name: a, template: {spec: {parallelism: 2}}}]")
	pod := w.pod("early", "Job/set-a", "jobset.sigs.k8s.io/replicatedjob-name", "a")
	w.held(pod, ReasonOwnerUnknown, "Job set-a")
	w.object("Job/set-a", "JobSet/set", "", "parallelism: 2")
	key, _ := w.GroupOf(pod)
	if w.group(pod) != "set" || !slices.Contains(w.changed, key) {
		t.Errorf("it is in %q, and told of %v", w.group(pod), w.changed)
	}
	w.changed = nil
	w.object("Job/set-a", "", "", "parallelism: 2")
	if w.group(pod) != "" || !slices.Contains(w.changed, key) {
		t.Errorf("released by the JobSet, it is in %q, and told of %v", w.group(pod), w.changed)
	}
}

// TestOwnersInACircle checks objects that own each other. The API server accepts such objects.
func TestOwnersInACircle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job", "JobSet")
	w.object("Job/self", "Job/self", gangOn, "parallelism: 2")
	w.object("Job/a", "Job/b", gangOn, "parallelism: 2")
	w.object("Job/b", "Job/a", gangOn, "parallelism: 3")
	for _, name := range []string{"self", "a", "b"} {
		pod := w.pod("of-"+name, "Job/"+name)
		if got := w.group(pod); got != name {
			t.Errorf("the pod of %s is in %q", name, got)
		}
		key, _ := w.GroupOf(pod)
		if anchors := w.Anchors(key); len(slices.Compact(slices.Sorted(slices.Values(anchors)))) != len(anchors) {
			t.Errorf("pods of %s are found more than once, by %q", name, anchors)
		}
	}
	w.object("Job/a", "", gangOn, "parallelism: 4")
	if got := w.group(w.pod("later", "Job/b")); got != "a" {
		t.Errorf("with a at the top, the pod of b is in %q", got)
	}
}

// TestForgedOwners checks that a pod is not in the group of an object if its owner reference does
// not match the object. Users may write any reference.
func TestForgedOwners(t *testing.T) {
	t.Parallel()
	tests := map[string]func(pod *corev1.Pod){
		"of another namespace": func(pod *corev1.Pod) { pod.Namespace = "theirs" },
		"of another name":      func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "other" },
		"of another kind":      func(pod *corev1.Pod) { pod.OwnerReferences[0] = kindOf(pod.OwnerReferences[0], "JobSet") },
	}
	for name, forge := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, "Job", "JobSet")
			w.SetNamespace("theirs", nil)
			w.object("Job/train", "", gangOn, "parallelism: 2")
			key, _ := w.GroupOf(w.pod("member", "Job/train"))
			forged := w.pod("forged", "Job/train")
			forge(forged)
			w.held(forged, ReasonOwnerUnknown, forged.OwnerReferences[0].Name)
			if forged.Namespace != "theirs" {
				return
			}
			for _, anchor := range w.Anchors(key) {
				if slices.Contains(w.Anchored(anchor), forged) {
					t.Errorf("it is found among the pods of %s, by %q", key, anchor)
				}
			}
		})
	}
}

// TestForgedOwnerOfAnObject checks an object whose owner reference names an object in another
// namespace.
func TestForgedOwnerOfAnObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job", "JobSet")
	w.SetNamespace("theirs", nil)
	w.object("JobSet/set", "", gangOn, "replicatedJobs: [{name: a, template: {spec: {parallelism: 2}}}]")
	u := objectFrom(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: theirs, name: set-a, uid: Job/set-a}\nspec: {parallelism: 1}\n")
	u.SetOwnerReferences([]metav1.OwnerReference{ownerRef("JobSet/set")})
	w.Set(schema.GroupKind{Group: "batch", Kind: "Job"}, u)
	pod := w.pod("forged", "Job/set-a", "jobset.sigs.k8s.io/replicatedjob-name", "a")
	pod.Namespace, pod.Spec.NodeName = "theirs", "node-0"
	w.held(pod, ReasonOwnerUnknown, "JobSet set")
	if slices.Contains(w.podsBelow(w.objects["JobSet/set"]), pod) {
		t.Error("it counts as one of the JobSet's pods")
	}
}

func kindOf(ref metav1.OwnerReference, kind string) metav1.OwnerReference {
	ref.APIVersion, ref.Kind = BuiltIn()[kind].Kind.GroupVersion().String(), kind
	return ref
}

// TestChangesOfShape checks that a pod with a node keeps its group when the object changes. The
// change applies when the object has no pods with a node.
func TestChangesOfShape(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job")
	w.object("Job/train", "", gangOn, "parallelism: 2")
	pod := w.pod("p", "Job/train")
	key, _ := w.GroupOf(pod)
	w.object("Job/train", "", gangOn, "parallelism: 5")
	if g, _ := w.Group(key); g.MinCount != 5 || !slices.Contains(w.changed, key) {
		t.Errorf("scaled to 5, it needs %d; told of %v", g.MinCount, w.changed)
	}
	pod.Spec.NodeName = "node-0"
	w.object("Job/train", "", `reprieve.dev/gang: "false"`, "parallelism: 5")
	if g, _ := w.Group(key); w.group(pod) != "train" || !strings.Contains(g.Note, "Job train has changed") {
		t.Errorf("it has left its group while it runs; the note is %q", g.Note)
	}
	w.Sweep()
	if w.group(pod) != "train" {
		t.Error("a sweep has it leave its group while it runs")
	}
	w.moved, pod.Spec.NodeName = nil, ""
	w.Sweep()
	if g, _ := w.Group(key); w.group(pod) != "" || !g.Ended || g.Note != "" || !slices.Equal(w.moved, []string{"p"}) {
		t.Errorf("with no pod on a node it is in %q; the group is %+v; told %q", w.group(pod), g, w.moved)
	}
}

// TestRolesThatChange checks changes of the roles of a running gang. An added role must apply, and
// so must a larger one. A removed role must count until its pods are deleted.
func TestRolesThatChange(t *testing.T) {
	t.Parallel()
	const a, b = "{groupName: a, replicas: 2}", "{groupName: b, replicas: 3}"
	tests := map[string]struct {
		annotations, before, after, added string
		// wantGroup is the group of the added pod. It is empty if the pod is blocked.
		wantGroup string
		wantCount int
		wantNote  bool
	}{
		"one that is added":          {annotations: gangOn, before: a, after: a + ", " + b, added: "b", wantGroup: "ray", wantCount: 6},
		"one that grows":             {annotations: gangOn, before: a, after: "{groupName: a, replicas: 4}", added: "a", wantGroup: "ray", wantCount: 5},
		"one that goes":              {annotations: gangOn, before: a + ", " + b, after: b, added: "b", wantGroup: "ray", wantCount: 6, wantNote: true},
		"one without pods that goes": {annotations: gangOn, before: a + ", " + b, after: a, added: "a", wantGroup: "ray", wantCount: 3},
		"one of several gangs, that is added": {
			annotations: gangOn + `, reprieve.dev/gang-per: role`, before: a, after: a + ", " + b, added: "b", wantGroup: "ray-b", wantCount: 3,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, "RayCluster")
			w.object("RayCluster/ray", "", tt.annotations, "workerGroupSpecs: ["+tt.before+"]")
			running := w.pod("running", "RayCluster/ray", "ray.io/group", "a")
			w.group(running)
			running.Spec.NodeName = "node-0"
			w.object("RayCluster/ray", "", tt.annotations, "workerGroupSpecs: ["+tt.after+"]")
			added := w.pod("added", "RayCluster/ray", "ray.io/group", tt.added)
			key, _ := w.GroupOf(added)
			if g, _ := w.Group(key); w.group(added) != tt.wantGroup || g.MinCount != tt.wantCount || (g.Note != "") != tt.wantNote {
				t.Errorf("it is in %q, which needs %d, with the note %q", w.group(added), g.MinCount, g.Note)
			}
			if !tt.wantNote {
				return
			}
			w.pods = slices.DeleteFunc(w.pods, func(pod *corev1.Pod) bool { return pod == running })
			w.Sweep()
			if g, _ := w.Group(key); g.MinCount != 4 || g.Note != "" {
				t.Errorf("once its pods have gone, %d are needed, with the note %q", g.MinCount, g.Note)
			}
		})
	}
}

// TestGone checks that pods with a node keep their groups after their object is deleted. A new
// object with the same name has other groups.
func TestGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job")
	// The Resolver does not follow the kind of the Job's owner.
	w.object("Job/train", "Trial/t", gangOn, "parallelism: 2")
	pod := w.pod("p", "Job/train")
	key, _ := w.GroupOf(pod)
	pod.Spec.NodeName = "node-0"
	w.Delete("Job/train")
	w.Sweep()
	if g, ok := w.Group(key); w.group(pod) != "train" || !ok || !g.Ended {
		t.Errorf("the pod is in %q, the group is %+v, %t", w.group(pod), g, ok)
	}
	w.pods, w.changed = nil, nil
	w.Sweep()
	if !slices.Contains(w.changed, key) {
		t.Error("its PodGroup is not looked at when it is forgotten")
	}
	if _, ok := w.Group(key); ok || len(w.objects)+len(w.groups)+len(w.byName)+len(w.children) > 0 {
		t.Errorf("the group is known for good; %d objects, %d groups, %d owners", len(w.objects), len(w.groups), len(w.children))
	}
	a, b := &object{objectName: objectName{name: "train"}, uid: "1"}, &object{objectName: objectName{name: "train"}, uid: "2"}
	if groupName(a, suffix{}) == groupName(b, suffix{}) {
		t.Error("two objects of one name, one after the other, have one group")
	}
}

// TestRecall checks that a group that an earlier process derived is known even without pods.
func TestRecall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "LeaderWorkerSet")
	w.object("LeaderWorkerSet/serve", "", gangOn, "replicas: 2, leaderWorkerTemplate: {size: 4}")
	o := w.objects["LeaderWorkerSet/serve"]
	w.object("LeaderWorkerSet/apart", "", gangOn+`, reprieve.dev/gang-per: role`, "replicas: 2, leaderWorkerTemplate: {size: 4}")
	apart := w.objects["LeaderWorkerSet/apart"]
	workers := types.NamespacedName{Namespace: "ns", Name: groupName(apart, suffix{unit: "1", role: AnyName})}
	w.Recall(workers, apart.uid)
	if g, ok := w.Group(workers); !ok || g.Ended || g.MinCount != 3 {
		t.Errorf("the workers by themselves are %+v, %t", g, ok)
	}
	for unit, surplus := range map[string]bool{"1": false, "2": true} {
		key := types.NamespacedName{Namespace: "ns", Name: groupName(o, suffix{unit: unit})}
		w.Recall(key, o.uid)
		if g, ok := w.Group(key); !ok || g.Ended || g.Surplus != surplus {
			t.Errorf("replica %s of 2: the group is %+v, %t, want surplus %t", unit, g, ok, surplus)
		}
	}
	other := types.NamespacedName{Namespace: "ns", Name: "serve-mine"}
	w.Recall(other, o.uid)
	if g, ok := w.Group(other); ok {
		t.Errorf("a group of another name is known as %+v", g)
	}
}

// clusterOf returns the RayCluster of a RayJob.
func clusterOf(t *testing.T, job string) *unstructured.Unstructured {
	t.Helper()
	u := objectFrom(t, "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {namespace: ns, name: ray-1, uid: RayCluster/ray-1}\nspec: {}\n")
	u.SetOwnerReferences([]metav1.OwnerReference{ownerRef(job)})
	return u
}
