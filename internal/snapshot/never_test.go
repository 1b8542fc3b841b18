package snapshot

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// neverByClass is a source of tolerations for the disruption mode Never, by the name of the class.
type neverByClass struct {
	*facts
	classes map[string]*core.Toleration
}

func (n neverByClass) OfNever(name string, _ time.Time) *core.Toleration { return n.classes[name] }

// TestWithNever checks the facts about a PodGroup of a tree, by its mode and by the seals of its
// members.
func TestWithNever(t *testing.T) {
	t.Parallel()
	sealed := func(seal string) *corev1.Pod {
		p := scheduledAt(pod("lead-0", "lead", "1", 5), time.Unix(1000, 0))
		p.Spec.NodeName = "node-0"
		if seal != "" {
			p.Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: seal}
		}
		return p
	}
	hour, minute := &core.Toleration{Below: 9, Until: 3600, Never: true}, &core.Toleration{Below: 9, Until: 60, Never: true}
	toleration := &core.Toleration{Below: 9, Until: 600}
	forever := &core.Toleration{Below: 9, Until: core.Forever}
	const never = `{"group":"lead","priority":5,"class":"hour","never":true}`
	for name, c := range map[string]struct {
		mode   func(lead *gang.Group)
		class  func(tree *gang.Group)
		seal   string
		tree   *core.Toleration
		stale  bool
		want   *core.Toleration
		wantID string
	}{
		"sealed":                        {seal: never, want: hour},
		"without a seal":                {},
		"sealed with a shorter class":   {seal: `{"group":"lead","priority":5,"class":"minute","never":true}`, want: minute},
		"sealed with a class without":   {seal: `{"group":"lead","priority":5,"class":"none","never":true}`},
		"sealed with another mode":      {seal: `{"group":"lead","priority":5,"class":"hour"}`},
		"another mode now":              {seal: never, mode: func(g *gang.Group) { g.Never = false }},
		"a class without a length":      {seal: never, class: func(g *gang.Group) { g.PriorityClassName = "none" }},
		"no class":                      {seal: never, class: func(g *gang.Group) { g.PriorityClassName = "" }},
		"a priority that is not known":  {seal: never, class: func(g *gang.Group) { g.Priority = nil }},
		"a shorter toleration":          {seal: never, tree: toleration, want: hour},
		"a toleration without an end":   {seal: never, tree: forever, want: forever},
		"a toleration, and other modes": {tree: toleration, mode: func(g *gang.Group) { g.Never = false }, want: toleration},
		"a stale tree":                  {seal: never, stale: true, want: hour, wantID: "uid-lead"},
		"a stale tree, another mode":    {stale: true, mode: func(g *gang.Group) { g.Never = false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFacts()
			lead := &gang.Group{Key: key("lead"), UID: "uid-lead", MinCount: 1, Never: true}
			whole := &gang.Group{Key: gang.TreeKey("ns", "tree"), UID: "uid-tree", MinGroupCount: 2, Priority: ptr.To[int32](5), PriorityClassName: "hour"}
			if c.mode != nil {
				c.mode(lead)
			}
			if c.class != nil {
				c.class(whole)
			}
			f.groups[whole.Key] = whole
			f.groups[lead.Key], f.placed = lead, []*corev1.Pod{sealed(c.seal)}
			sources := f.sources()
			sources.Tolerations = neverByClass{f, map[string]*core.Toleration{"hour": hour, "minute": minute}}
			tree := &core.Group{Namespace: "ns", Name: "tree", UID: "uid-tree", Priority: 5, Toleration: c.tree, Stale: c.stale, Since: 1}
			before := *tree
			got := sources.withNever(tree, whole.Key, lead.Key)
			if (got.Toleration == nil) != (c.want == nil) || c.want != nil && *got.Toleration != *c.want {
				t.Errorf("The toleration is %+v, want %+v", got.Toleration, c.want)
			}
			wantID, wantWorkload := "uid-tree", ""
			if c.wantID != "" {
				wantID, wantWorkload = c.wantID, "uid-tree"
			}
			if got.UID != wantID || got.Workload != wantWorkload || got.Stale != c.stale || got.Priority != 5 {
				t.Errorf("The facts are %+v, want the UID %q of the workload %q", got, wantID, wantWorkload)
			}
			if *tree != before {
				t.Errorf("The facts of the tree are %+v, were %+v", *tree, before)
			}
		})
	}
}

// TestNeverAddsToTheToleration compares the toleration of a group in mode Never with its
// definition. The group is protected exactly while the toleration of its class or the length for
// the mode protects it.
func TestNeverAddsToTheToleration(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1000, 0)
		if rapid.Bool().Draw(t, "not begun") {
			start = time.Time{}
		}
		values := map[string]string{}
		for _, key := range []string{preemptiontoleration.AnnotationTolerationSeconds, preemptiontoleration.AnnotationNeverSeconds, preemptiontoleration.AnnotationMinimumPreemptablePriority} {
			if v := rapid.SampledFrom([]string{"", "", "-1", "0", "1", "2", "3", "bad"}).Draw(t, key); v != "" {
				values[key] = v
			}
		}
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: values}, Value: 1}
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
		if err := store.Add(class); err != nil {
			t.Fatal(err)
		}
		source := NewClassTolerations(schedulinglisters.NewPriorityClassLister(store))
		got := longer(source.OfClass("c", start), source.OfNever("c", start))

		begin := time.Unix(1000, 0)
		now := begin.Add(time.Duration(rapid.IntRange(0, 4).Draw(t, "now")) * time.Second)
		priority := int32(rapid.IntRange(0, 4).Draw(t, "priority"))
		if start.IsZero() {
			now = begin
		}
		want := false
		for _, of := range []func(*schedulingv1.PriorityClass) (*preemptiontoleration.Policy, error){preemptiontoleration.FromPriorityClass, preemptiontoleration.NeverFromPriorityClass} {
			if policy, err := of(class); err == nil {
				tolerates, _ := policy.Tolerates(priority, start, now)
				want = want || tolerates
			}
		}
		protects := false
		if got != nil && priority < got.Below {
			until := got.Until
			if got.Lasts > 0 {
				until = now.UnixNano() + got.Lasts
			}
			protects = now.UnixNano() <= until
		}
		if protects != want {
			t.Errorf("annotations %v, priority %d, at %v of %v: protected %t by %+v, want %t", values, priority, now, start, protects, got, want)
		}
	})
}
