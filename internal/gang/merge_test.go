package gang

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func TestGroupOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change []func(*corev1.Pod)
		want   string
		torn   bool
	}{
		"none":                    {},
		"an empty label":          {change: []func(*corev1.Pod){labelled("")}},
		"by its label":            {change: []func(*corev1.Pod){labelled("a")}, want: "a"},
		"by its spec":             {change: []func(*corev1.Pod){inGroup("b")}, want: "b"},
		"the same by both":        {change: []func(*corev1.Pod){labelled("a"), inGroup("a")}, want: "a"},
		"the spec counts":         {change: []func(*corev1.Pod){labelled("a"), inGroup("b")}, want: "b", torn: true},
		"a spec without a name":   {change: []func(*corev1.Pod){labelled("a"), func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} }}, want: "a"},
		"an empty label, and one": {change: []func(*corev1.Pod){labelled(""), inGroup("b")}, want: "b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := named("p", 1, c.change...)[0]
			key, ok := GroupOf(pod)
			if key != (types.NamespacedName{Namespace: "ns", Name: c.want}) || ok != (c.want != "") {
				t.Errorf("The group is %v, %t", key, ok)
			}
			v := Contradiction(pod)
			if (v != Verdict{}) != c.torn {
				t.Errorf("Contradiction: %+v", v)
			}
			if c.torn && (v.Reason != ReasonTwoPodGroups || !strings.Contains(v.Message, `"a"`) || !strings.Contains(v.Message, `"b"`)) {
				t.Errorf("It says %+v", v)
			}
		})
	}
}

// TestMergeKeepsWhatProtects checks that the combination of two groups with the same name has the
// protections of each.
func TestMergeKeepsWhatProtects(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "ns", Name: "g"}
	later := time.Unix(9, 0)
	low := Group{Key: key, UID: "low", Priority: ptr.To[int32](1), PriorityClassName: "low", MinCount: 2, Whole: true, StartTime: later,
		Disrupted: []v1alpha1.DisruptedPod{{Name: "a"}}}
	high := Group{Key: key, UID: "high", Priority: ptr.To[int32](7), PriorityClassName: "high", PreemptionPolicy: corev1.PreemptNever,
		MinCount: 3, StartTime: time.Unix(5, 0), Queue: "q", Disrupted: []v1alpha1.DisruptedPod{{Name: "b"}}}
	low.ClassOfNamespace = true
	silent := Group{Key: key, UID: "silent", PodPriorities: true}
	want := Group{Key: key, Ambiguous: true, Priority: high.Priority, PriorityClassName: "high", PreemptionPolicy: corev1.PreemptNever,
		MinCount: 3, Whole: true, StartTime: later, Queue: "q"}
	for name, c := range map[string]struct {
		first, second Group
		want          func(*Group)
	}{
		"the second stands higher": {low, high, func(g *Group) { g.Disrupted = []v1alpha1.DisruptedPod{{Name: "a"}, {Name: "b"}} }},
		"the first stands higher":  {high, low, func(g *Group) { g.Disrupted = []v1alpha1.DisruptedPod{{Name: "b"}, {Name: "a"}} }},
		"the second says nothing":  {high, silent, func(g *Group) { g.Whole, g.StartTime, g.Disrupted = false, high.StartTime, high.Disrupted }},
		"the first says nothing":   {silent, high, func(g *Group) { g.Whole, g.StartTime, g.Disrupted = false, high.StartTime, high.Disrupted }},
		"neither says anything":    {silent, silent, func(g *Group) { *g = Group{Key: key, Ambiguous: true, PodPriorities: true} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first, second Store
			first.Set(&c.first)
			second.Set(&c.second)
			want := want
			c.want(&want)
			want.UID = c.first.UID
			got, _ := Merge(&first, &second).Group(key)
			if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	var first, second Store
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	first.Set(&Group{Key: key("first"), UID: "1"})
	first.Set(&Group{Key: key("both"), UID: "1"})
	second.Set(&Group{Key: key("second"), UID: "2"})
	second.Set(&Group{Key: key("both"), UID: "2"})
	both := Merge(&first, &second)
	for name, want := range map[string]struct {
		uid       types.UID
		ambiguous bool
	}{
		"first": {uid: "1"}, "second": {uid: "2"}, "both": {uid: "1", ambiguous: true}, "neither": {},
	} {
		g, ok := both.Group(key(name))
		if ok != (want.uid != "") || ok && (g.UID != want.uid || g.Ambiguous != want.ambiguous) {
			t.Errorf("%s: %+v, %t", name, g, ok)
		}
	}
	if g, _ := first.Group(key("both")); g.Ambiguous {
		t.Error("The source's own group has been changed")
	}
	second.Delete(key("both"))
	if g, ok := both.Group(key("both")); !ok || g.Ambiguous {
		t.Errorf("With one left it is %+v, %t", g, ok)
	}
}
