package scheduler

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

func inSpec(p *corev1.Pod, group string) *corev1.Pod {
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// victims returns the names of the victims in all eviction orders, sorted.
func (r *rig) victims() []string {
	var names []string
	for _, order := range r.evictor.orders {
		for _, pod := range slices.Collect(maps.Values(order.Victims)) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestGangWithoutAPriority checks that a gang without a priority gets the lowest priority among its
// members, including the running members.
func TestGangWithoutAPriority(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		victim  int32
		members []int32
		// running is the priority of a member that has a node.
		running      int32
		wantPriority int32
		wantTaken    bool
	}{
		"it takes what is below all":      {victim: 3, members: []int32{9, 5}, running: 7, wantPriority: 5, wantTaken: true},
		"not what is below some":          {victim: 7, members: []int32{9, 5}, running: 7},
		"not what those that run are not": {victim: 3, members: []int32{9, 5}, running: 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "2"), node("node-1", "1"))
			g := r.gangOf("g", 3, 0)
			g.Priority, g.PodPriorities, g.APIVersion = nil, true, "scheduling.k8s.io/v1alpha2"
			r.create(on(pod("v-0", "", "1", c.victim), "node-0"), on(pod("v-1", "", "1", c.victim), "node-0"),
				inSpec(on(pod("g-2", "", "1", c.running), "node-1"), "g"),
				inSpec(pod("g-0", "", "1", c.members[0]), "g"), inSpec(pod("g-1", "", "1", c.members[1]), "g"))
			r.cycles()
			if !c.wantTaken {
				if got := r.victims(); len(got) > 0 {
					t.Errorf("%v go", got)
				}
				return
			}
			if got := r.victims(); !slices.Equal(got, []string{"v-0", "v-1"}) {
				t.Fatalf("%v go", got)
			}
			if got := r.evictor.orders[0].Decision.Preemptor.Priority; got != c.wantPriority {
				t.Errorf("The gang's priority is %d, want %d", got, c.wantPriority)
			}
		})
	}
}

// TestLowestMemberMayBeReserved checks that an assumed member also counts for the priority of a
// gang that has no priority itself.
func TestLowestMemberMayBeReserved(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "2"))
	g := r.gangOf("g", 2, 0)
	g.Priority, g.PodPriorities = nil, true
	r.create(inSpec(pod("g-0", "", "1", 9), "g"), inSpec(pod("g-1", "", "1", 2), "g"))
	r.sched.gangs.Reserve(gangKey(g.Key), "uid-g-1", "node-0")
	m := r.sched.placements.Members(g.Key)
	if pre := r.plugin.gangPreemptor(g, &m); pre.priority != 2 || len(pre.pods) != 1 {
		t.Errorf("%d members stand at %d, want 1 at 2", len(pre.pods), pre.priority)
	}
}

// TestVictimsOfAGroupThatSaysNothing checks victims that are members of groups without a usable
// priority. Members that are evicted one by one have their own priorities. Members that are evicted
// together have the highest priority among them.
func TestVictimsOfAGroupThatSaysNothing(t *testing.T) {
	t.Parallel()
	const between, above = 5, 10
	asOne := []string{"high", "low"}
	cases := map[string]struct {
		change func(*gang.Group)
		urgent int32
		want   []string
	}{
		"no priority":                      {func(g *gang.Group) { g.Priority, g.PodPriorities = nil, true }, between, []string{"low"}},
		"no priority, and all as one":      {func(g *gang.Group) { g.Priority, g.PodPriorities, g.Whole = nil, true, true }, between, nil},
		"the same, and all are lower":      {func(g *gang.Group) { g.Priority, g.PodPriorities, g.Whole = nil, true, true }, above, asOne},
		"a name of two groups":             {func(g *gang.Group) { g.Ambiguous, g.Whole = true, true }, between, asOne},
		"a name of two, the higher counts": {func(g *gang.Group) { g.Ambiguous, g.Whole, *g.Priority = true, true, 7 }, between, nil},
		"a priority that is not there":     {func(g *gang.Group) { g.Priority = nil }, between, nil},
		"the same, all as one, all lower":  {func(g *gang.Group) { g.Priority, g.Whole = nil, true }, above, asOne},
		"a priority":                       {func(g *gang.Group) { *g.Priority, g.Whole = 0, true }, between, asOne},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "2"))
			c.change(r.gangOf("g", 2, 0))
			r.create(inSpec(on(pod("low", "", "1", 1), "node-0"), "g"), inSpec(on(pod("high", "", "1", 9), "node-0"), "g"), pod("urgent", "", "1", c.urgent))
			r.cycles()
			if got := r.victims(); !slices.Equal(got, c.want) {
				t.Errorf("%v go, want %v", got, c.want)
			}
		})
	}
}

// TestPodOfTwoGroups checks that a pod that names two groups is gated until it names only one.
func TestPodOfTwoGroups(t *testing.T) {
	t.Parallel()
	for _, asGang := range []bool{true, false} {
		t.Run(map[bool]string{true: "of a gang", false: "of a basic group"}[asGang], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "2"))
			minCount := 0
			if asGang {
				minCount = 2
			}
			r.gangOf("g", minCount, 0)
			torn := inSpec(pod("torn", "other", "1", 0), "g")
			r.create(torn)
			if asGang {
				r.create(pod("g-0", "g", "1", 0))
			}
			if names := r.active(); len(names) > 0 {
				t.Fatalf("%v go to the queue", names)
			}
			if status := r.sched.gates.pod(torn); !strings.Contains(status.Message(), `"other"`) || !strings.Contains(status.Message(), `"g"`) {
				t.Errorf("It is gated by %v", status)
			}
			patch := []byte(`{"metadata":{"resourceVersion":"2","labels":{"` + v1alpha1.LabelPodGroup + `":"g"}}}`)
			if _, err := r.client.CoreV1().Pods("ns").Patch(t.Context(), "torn", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf("torn") != "" })
		})
	}
}

func TestOnlyOutcome(t *testing.T) {
	t.Parallel()
	full := func(p *corev1.Pod) *corev1.Pod {
		p.Status.Phase = corev1.PodSucceeded
		p.Annotations = map[string]string{"a": "b"}
		return on(p, "node-0")
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		want types.NamespacedName
	}{
		"by its label": {full(pod("p", "g", "1", 0)), key("g")},
		"by its spec":  {full(inSpec(pod("p", "", "1", 0), "g")), key("g")},
		"without one":  {full(pod("p", "", "1", 0)), types.NamespacedName{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := onlyOutcome(c.pod, cluster.Underived{})
			got, ok := out.(*corev1.Pod)
			if !ok {
				t.Fatalf("Got %T", out)
			}
			group, member := gang.GroupOf(got)
			if member != (c.want.Name != "") || member && group != c.want {
				t.Errorf("The group is %v, %t", group, member)
			}
			if got.Name != "p" || got.UID != c.pod.UID || len(got.Spec.Containers) > 0 || len(got.Annotations) > 0 || got.Status.Phase != corev1.PodSucceeded {
				t.Errorf("What is kept is %+v", got)
			}
		})
	}
}

// TestOnlyOutcomeOfForeignGroups checks that a finished pod in the informer has the annotations by
// which other schedulers identify groups, and no other annotations.
func TestOnlyOutcomeOfForeignGroups(t *testing.T) {
	t.Parallel()
	args := &configv1alpha1.ReprieveArgs{Groups: configv1alpha1.GroupArgs{Labels: configv1alpha1.KnownLabels()}}
	configv1alpha1.SetDefaults(args)
	rules, err := grouping.FromArgs(&args.Groups)
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := grouping.NewResolver(map[string]*grouping.Settings{"p": grouping.NewSettings(rules, false)}, func(types.NamespacedName) {})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range grouping.PodAnnotations() {
		p := pod("p", "", "1", 0)
		p.Spec.SchedulerName, p.Annotations = "p", map[string]string{name: "train", "other": "x"}
		want := resolver.AnchorsOf(p)
		found += len(want)
		out, ok := onlyOutcome(p, resolver).(*corev1.Pod)
		if !ok || !slices.Equal(resolver.AnchorsOf(out), want) || out.Annotations["other"] != "" {
			t.Errorf("of a pod with %s %+v is left", name, out.ObjectMeta)
		}
	}
	if found == 0 {
		t.Error("no annotation names a group")
	}
}
