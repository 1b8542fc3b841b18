package grouping

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/deploy"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// newForeignWorld returns a world whose profile recognizes the groups of other schedulers.
func newForeignWorld(t *testing.T, schedulers ...configv1alpha1.GroupLabels) *world {
	t.Helper()
	args := &configv1alpha1.ReprieveArgs{Groups: configv1alpha1.GroupArgs{Labels: schedulers, Kinds: []string{"Job"}}}
	configv1alpha1.SetDefaults(args)
	rules, err := FromArgs(&args.Groups)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	r, err := NewResolver(map[string]*Settings{profile: NewSettings(rules, false).Understand(schedulers)}, func(types.NamespacedName) {})
	if err != nil {
		t.Fatal(err)
	}
	r.Attach(w)
	r.SetNamespace("ns", nil)
	w.Resolver = r
	return w
}

// theirs adds a PodGroup of another API. annotations and spec are the contents of YAML maps.
func (w *world) theirs(apiVersion, name, annotations, spec string) {
	w.t.Helper()
	u := objectFrom(w.t, fmt.Sprintf("apiVersion: %s\nkind: PodGroup\nmetadata: {namespace: ns, name: %s, uid: %s, annotations: {%s}}\nspec: {%s}\n",
		apiVersion, name, apiVersion+name, annotations, spec))
	w.Set(u.GroupVersionKind().GroupKind(), u)
}

// annotated adds a pod. annotations are pairs of a name and a value.
func (w *world) annotated(name string, annotations ...string) *corev1.Pod {
	pod := w.pod(name, "")
	pod.Annotations = map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	return pod
}

func TestForeignGroups(t *testing.T) {
	t.Parallel()
	const g = "train"
	tests := map[string]struct {
		scheduler   configv1alpha1.GroupLabels
		apiVersion  string
		labels      []string
		annotations []string
		spec        string
		wantCount   int
		wantChoice  Choice
		wantQueue   string
	}{
		"coscheduling": {
			scheduler: "coscheduling", apiVersion: "scheduling.x-k8s.io/v1alpha1", labels: []string{"scheduling.x-k8s.io/pod-group", g},
			spec: "minMember: 3", wantCount: 3,
		},
		"coscheduling, without a number": {
			scheduler: "coscheduling", apiVersion: "scheduling.x-k8s.io/v1alpha1", labels: []string{"scheduling.x-k8s.io/pod-group", g},
			spec: "minMember: 0", wantCount: 1,
		},
		"Volcano": {
			scheduler: "volcano", apiVersion: "scheduling.volcano.sh/v1beta1", annotations: []string{"scheduling.k8s.io/group-name", g, "scheduling.volcano.sh/queue-name", "blue"},
			spec: "minMember: 2, queue: red, priorityClassName: high", wantCount: 2, wantChoice: Choice{Queue: "red", PriorityClass: "high"}, wantQueue: "blue",
		},
		"Volcano, by its own key": {
			scheduler: "volcano", apiVersion: "scheduling.volcano.sh/v1beta1", annotations: []string{"scheduling.volcano.sh/group-name", g},
			labels: []string{"volcano.sh/queue-name", "red"}, spec: "minMember: 2", wantCount: 2, wantQueue: "red",
		},
		"KAI": {
			scheduler: "kai", apiVersion: "scheduling.run.ai/v2alpha2", annotations: []string{"pod-group-name", g}, labels: []string{"kai.scheduler/queue", "red"},
			spec: "minMember: 4, queue: red", wantCount: 4, wantChoice: Choice{Queue: "red"}, wantQueue: "red",
		},
		"KAI, with subgroups and a number of the whole": {
			scheduler: "kai", apiVersion: "scheduling.run.ai/v2alpha2", annotations: []string{"pod-group-name", g},
			spec: "minMember: 5, subGroups: [{name: leader, minMember: 1}, {name: workers, minMember: 4}]", wantCount: 5,
		},
		"Koordinator, with an object": {
			scheduler: "koordinator", apiVersion: "scheduling.sigs.k8s.io/v1alpha1", labels: []string{"pod-group.scheduling.sigs.k8s.io", g},
			spec: "minMember: 2", wantCount: 2,
		},
		"Koordinator, by annotations": {
			scheduler: "koordinator", annotations: []string{"gang.scheduling.koordinator.sh/name", g, "gang.scheduling.koordinator.sh/min-available", "5"}, wantCount: 5,
		},
		"Koordinator, by labels": {
			scheduler: "koordinator", labels: []string{"pod-group.scheduling.sigs.k8s.io/name", g, "pod-group.scheduling.sigs.k8s.io/min-available", "5"}, wantCount: 5,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newForeignWorld(t, tt.scheduler)
			pod := w.annotated("a", tt.annotations...)
			for i := 0; i < len(tt.labels); i += 2 {
				pod.Labels[tt.labels[i]] = tt.labels[i+1]
			}
			if tt.apiVersion != "" {
				if v := w.Hold(pod); v.Reason != ReasonOwnerUnknown {
					t.Errorf("its PodGroup is not there, and the pod hears %+v", v)
				}
				w.theirs(tt.apiVersion, g, "", tt.spec)
			}
			if got := w.group(pod); got != g {
				t.Errorf("the pod is in group %q, want %q", got, g)
			}
			key, _ := w.GroupOf(pod)
			got, ok := w.Group(key)
			if !ok || got.MinCount != tt.wantCount || got.Choice != tt.wantChoice || got.Ended || got.Ownerless != (tt.apiVersion == "") {
				t.Errorf("the group is %+v, want %d of %+v", got, tt.wantCount, tt.wantChoice)
			}
			if q := w.QueueOf(pod); q != tt.wantQueue {
				t.Errorf("the pod names queue %q, want %q", q, tt.wantQueue)
			}
			if found := w.Anchored(w.Anchors(key)[0]); len(found) != 1 {
				t.Errorf("the group finds %d pods, want its own", len(found))
			}
			other := newForeignWorld(t)
			if got := other.group(pod); got != "" || other.QueueOf(pod) != "" {
				t.Errorf("a profile that does not ask for it has the pod in group %q", got)
			}
		})
	}
}

// TestForeignGroupsOptOut checks that Reprieve's annotations take precedence over the groups of
// other schedulers.
func TestForeignGroupsOptOut(t *testing.T) {
	t.Parallel()
	w := newForeignWorld(t, "coscheduling")
	w.theirs("scheduling.x-k8s.io/v1alpha1", "train", `reprieve.dev/gang: "false"`, "minMember: 3")
	if got := w.group(w.pod("a", "", "scheduling.x-k8s.io/pod-group", "train")); got != "" {
		t.Errorf("the object wants no gang, and its pod is in %q", got)
	}
	if got := w.group(w.pod("b", "", "scheduling.x-k8s.io/pod-group", "train", "reprieve.dev/pod-group", "own")); got != "own" {
		t.Errorf("the pod names a PodGroup, and is in %q", got)
	}
	v := newForeignWorld(t, "volcano")
	v.theirs("scheduling.volcano.sh/v1beta1", "near", "", "minMember: 2, networkTopology: {mode: hard}")
	if hold := v.Hold(v.annotated("n", "scheduling.k8s.io/group-name", "near")); hold.Reason != ReasonNotGroupable || !strings.Contains(hold.Message, "spec.networkTopology") {
		t.Errorf("what cannot be honoured is answered by %+v", hold)
	}
	k := newForeignWorld(t, "kai")
	for name, spec := range map[string]string{
		"spec.topologyConstraint": "minMember: 2, topologyConstraint: {topology: racks}",
		"spec.minSubGroup":        "minSubGroup: 2, subGroups: [{name: decode, minMember: 3}, {name: prefill, minMember: 1}]",
		"spec.subGroups":          "subGroups: [{name: decode, minMember: 3}, {name: prefill, minMember: 1}]",
	} {
		group := strings.ToLower(name)
		k.theirs("scheduling.run.ai/v2alpha2", group, "", spec)
		if hold := k.Hold(k.annotated(group, "pod-group-name", group)); hold.Reason != ReasonNotGroupable || !strings.Contains(hold.Message, name) {
			t.Errorf("%s: the pod hears %+v", name, hold)
		}
	}
	w.object("Job/j", "", gangOn, "parallelism: 2")
	w.theirs("scheduling.x-k8s.io/v1alpha1", "other", "", "minMember: 3")
	if got := w.group(w.pod("c", "Job/j", "scheduling.x-k8s.io/pod-group", "other")); got != "other" {
		t.Errorf("the pod of a Job names a PodGroup, and is in %q", got)
	}
}

// TestPodsThatCount checks that a gang without an owner object exists as long as it has pods, and
// that a pod with an invalid number is blocked with a reason.
func TestPodsThatCount(t *testing.T) {
	t.Parallel()
	const name, count = "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"
	w := newForeignWorld(t, "koordinator")
	first := w.annotated("a", name, "g", count, "2")
	key, _ := w.GroupOf(first)
	for what, pod := range map[string]*corev1.Pod{
		"another number": w.annotated("b", name, "g", count, "3"), "no number": w.annotated("c", name, "g"), "a word": w.annotated("d", name, "h", count, "many"),
	} {
		if v := w.Hold(pod); v.Reason != ReasonNotGroupable || !strings.Contains(v.Message, count) {
			t.Errorf("with %s, the pod hears %+v", what, v)
		}
	}
	if g, _ := w.Group(key); g.Owner.UID == "" || g.Ended || g.MinCount != 2 {
		t.Errorf("the group is %+v", g)
	}
	w.mu.Lock()
	w.pods = nil
	w.mu.Unlock()
	w.Sweep()
	if _, ok := w.Group(key); ok {
		t.Error("there are no pods left, and the group is known")
	}
	again := w.annotated("e", name, "g", count, "4")
	if now, _ := w.GroupOf(again); now != key {
		t.Errorf("its next run is in %s, not %s", now, key)
	}
	if n, _ := w.MinCount(key); n != 4 || w.Hold(again) != (gang.Verdict{}) {
		t.Errorf("its next run needs %d, want 4", n)
	}
	// A gang is seen before the settings of its namespace are known. While the settings are being
	// applied, another gang appears in the namespace.
	late := w.annotated("f", name, "late", count, "2")
	late.Namespace = "new"
	if v := w.Hold(late); v.Reason != ReasonOwnerUnknown {
		t.Errorf("its namespace is not known, and the pod hears %+v", v)
	}
	var meanwhile *corev1.Pod
	w.looked = func() {
		if meanwhile == nil {
			meanwhile = w.annotated("m", name, "meanwhile", count, "2")
			meanwhile.Namespace = "new"
			w.Hold(meanwhile)
		}
	}
	w.SetNamespace("new", nil)
	for _, pod := range []*corev1.Pod{late, meanwhile} {
		if v := w.Hold(pod); v != (gang.Verdict{}) {
			t.Errorf("the namespace is known, and pod %s hears %+v", pod.Name, v)
		}
	}
}

// TestPoliciesKnowForeignWords checks that the admission policies for pods list the keys of other
// schedulers. The policies must leave pods with such keys to the scheduler.
func TestPoliciesKnowForeignWords(t *testing.T) {
	t.Parallel()
	raw, err := deploy.API.ReadFile("admission-queues.yaml")
	if err != nil {
		t.Fatal(err)
	}
	byLabel, rest, _ := strings.Cut(string(raw), "\n  name: pod-default-queue.reprieve.dev\nspec:")
	byDefault, _, found := strings.Cut(rest, "\n---\n")
	if !found {
		t.Fatal("there is no policy pod-default-queue")
	}
	lists := func(policy string, k key) bool {
		of := "labels"
		if k.annotation {
			of = "annotations"
		}
		return regexp.MustCompile(`\[[^\]]*'` + regexp.QuoteMeta(k.name) + `'[^\]]*\]\.exists\(k, k in object\.metadata\.` + of).MatchString(policy)
	}
	for _, scheduler := range configv1alpha1.KnownLabels() {
		w := foreign(scheduler)
		for _, rule := range w.rules {
			for _, k := range rule.Names {
				if !lists(byLabel, k) || !lists(byDefault, k) {
					t.Errorf("a policy does not know %+v, by which pods name a group of %s", k, scheduler)
				}
			}
		}
		for _, k := range w.queue {
			if !lists(byDefault, k) {
				t.Errorf("the policy for default queues does not know %+v, by which pods name a queue of %s", k, scheduler)
			}
		}
	}
}

// TestPolicySealsKeys checks that the admission policy for pods with a node lists all labels and
// annotations that determine groups and queues.
func TestPolicySealsKeys(t *testing.T) {
	t.Parallel()
	raw, err := deploy.API.ReadFile("admission-placed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "- name: labels\n")
	labels, rest, _ := strings.Cut(rest, "- name: annotations\n")
	annotations, _, found := strings.Cut(rest, "- name: changed\n")
	if !found {
		t.Fatal("the policy has other variables")
	}
	keys := []key{label(v1alpha1.LabelQueue), label(v1alpha1.LabelPodGroup), label(v1alpha1.LabelLedBy), annotation(v1alpha1.AnnotationLeads)}
	add := func(rule *Rule) {
		for _, name := range []string{rule.NameLabel, rule.UnitLabel, rule.RoleLabel, rule.Aside.Key} {
			keys = append(keys, label(name))
		}
		keys = append(append(keys, rule.Count), rule.Names...)
		for i := range rule.Roles {
			keys = append(keys, rule.Roles[i].Said)
		}
	}
	for _, scheduler := range configv1alpha1.KnownLabels() {
		w := foreign(scheduler)
		keys = append(keys, w.queue...)
		for _, rule := range w.rules {
			add(rule)
		}
	}
	for _, rule := range BuiltIn() {
		add(rule)
	}
	for _, k := range keys {
		list := labels
		if k.annotation {
			list = annotations
		}
		if k.name != "" && !strings.Contains(list, "'"+k.name+"'") {
			t.Errorf("the policy does not seal %+v", k)
		}
	}
}

// TestAnnotations checks that Annotations and PodAnnotations list all annotations that determine
// groups, because other packages drop annotations that are not in the lists.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	all, pods := Annotations(), PodAnnotations()
	for name, ofPods := range map[string]bool{
		"leaderworkerset.sigs.k8s.io/size":               true,
		"gang.scheduling.koordinator.sh/min-available":   true,
		"leaderworkerset.sigs.k8s.io/exclusive-topology": false,
		"alpha.jobset.sigs.k8s.io/exclusive-topology":    false,
		"alpha.jobset.sigs.k8s.io/node-selector":         false,
	} {
		if !slices.Contains(all, name) || slices.Contains(pods, name) != ofPods {
			t.Errorf("%s is among all: %t, and among those of pods: %t", name, slices.Contains(all, name), slices.Contains(pods, name))
		}
	}
}

// TestPodsThatCountAnew checks that the size of a gang follows the current annotations of its pods,
// in any order of the pods.
func TestPodsThatCountAnew(t *testing.T) {
	t.Parallel()
	const name, count = "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"
	saying := func(pods []*corev1.Pod, what string) {
		for _, pod := range pods {
			pod.Annotations[count] = what
		}
	}
	tests := map[string]struct {
		// first is the number that the first pod states. others is the number that the other two
		// pods state.
		first, others string
		change        func(w *world, pods []*corev1.Pod)
		want          int
		// wantHeld lists the names of the blocked pods.
		wantHeld []string
	}{
		"the first says nothing that counts": {first: "x", others: "3", want: 3, wantHeld: []string{"a"}},
		"it has gone": {
			first: "x", others: "3", want: 3,
			change: func(w *world, _ []*corev1.Pod) { w.pods = w.pods[1:] },
		},
		"it goes": {first: "4", others: "3", want: 3, change: func(_ *world, pods []*corev1.Pod) { pods[0].DeletionTimestamp = &metav1.Time{} }, wantHeld: []string{"a"}},
		"it has failed": {first: "4", others: "3", want: 3, change: func(_ *world, pods []*corev1.Pod) {
			pods[0].Spec.NodeName, pods[0].Status.Phase = "node-0", corev1.PodFailed
		}},
		"all say another number":           {first: "3", others: "3", want: 4, change: func(_ *world, pods []*corev1.Pod) { saying(pods, "4") }},
		"the others do":                    {first: "3", others: "3", want: 3, change: func(_ *world, pods []*corev1.Pod) { saying(pods[1:], "4") }, wantHeld: []string{"b", "c"}},
		"the others do, and one runs":      {first: "3", others: "3", want: 4, change: func(_ *world, pods []*corev1.Pod) { saying(pods[1:], "4"); pods[2].Spec.NodeName = "node-0" }, wantHeld: []string{"a"}},
		"those that wait do, and one runs": {first: "3", others: "3", want: 3, change: func(_ *world, pods []*corev1.Pod) { saying(pods[:2], "4"); pods[2].Spec.NodeName = "node-0" }, wantHeld: []string{"a", "b"}},
		"none says anything any more":      {first: "3", others: "3", change: func(_ *world, pods []*corev1.Pod) { saying(pods, "") }, wantHeld: []string{"a", "b", "c"}},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newForeignWorld(t, "koordinator")
			pods := []*corev1.Pod{w.annotated("a", name, "g", count, tt.first), w.annotated("b", name, "g", count, tt.others), w.annotated("c", name, "g", count, tt.others)}
			for _, pod := range pods {
				w.Hold(pod)
			}
			if tt.change != nil {
				tt.change(w, pods)
			}
			w.Sweep()
			var held []string
			var n int
			for _, pod := range w.pods {
				if w.Hold(pod) != (gang.Verdict{}) {
					held = append(held, pod.Name)
				}
				if key, ok := w.GroupOf(pod); ok {
					n, _ = w.MinCount(key)
				}
			}
			if !slices.Equal(held, tt.wantHeld) || n != tt.want {
				t.Errorf("%q wait, and %d are needed; want %q and %d", held, n, tt.wantHeld, tt.want)
			}
		})
	}
}
