package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// neverClass returns a PriorityClass with the value 0. Priorities below 100 cannot preempt groups
// in disruption mode Never for the given number of seconds.
func neverClass(name, seconds string) *schedulingv1.PriorityClass {
	class := tolerantClass(name, "100", "0")
	class.Annotations[preemptiontoleration.AnnotationNeverSeconds] = seconds
	return class
}

// edit changes a group that exists.
func (f *forest) edit(g *gang.Group, change func(*gang.Group)) {
	changed := *g
	change(&changed)
	f.groups.set(&changed)
	f.changed(g.Key)
}

// led creates a tree of the PodGroups lead, in disruption mode Never, and work. It returns the
// group lead.
func (f *forest) led(wholeRoot bool) *gang.Group {
	f.edit(f.plant("R", "", 2, 0, wholeRoot), func(g *gang.Group) { g.PriorityClassName = "c" })
	lead := f.plant("lead", "R", 1, 0, false)
	f.edit(lead, func(g *gang.Group) { g.Never = true })
	f.plant("work", "R", 3, 0, false)
	return lead
}

// TestNeverProtectsAPartOfATree checks the victims of a running tree whose leader is in disruption
// mode Never. The node has room for the leader and three workers only.
func TestNeverProtectsAPartOfATree(t *testing.T) {
	t.Parallel()
	const sealed = `{"group":"lead","priority":0,"class":"c","minCount":1,"never":true}`
	all, workers := []string{"lead-0", "work-0", "work-1", "work-2"}, []string{"work-0", "work-1", "work-2"}
	for name, tc := range map[string]struct {
		seconds   string
		edit      func(*gang.Group)
		wholeRoot bool
		ago       time.Duration
		// seal is the seal of the leader: "" for one in mode Never, "-" for none.
		seal     string
		priority int32
		size     string
		want     []string
		// wantRetryIn is the time until the preemptor is retried; 0 for no retry.
		wantRetryIn time.Duration
		wantSaid    string
	}{
		"room of the workers":              {size: "3", want: workers},
		"room of all":                      {size: "4", wantRetryIn: time.Hour, wantSaid: "(DisruptionModeNever) is protected no longer"},
		"after its time":                   {size: "4", ago: 2 * time.Hour, want: all},
		"a priority that is high enough":   {size: "4", priority: 100, want: all},
		"system-critical":                  {size: "4", priority: 2_000_000_000, want: all},
		"a class without a length":         {size: "4", seconds: "-", want: all},
		"a class with a length of no time": {size: "4", seconds: "0", want: all},
		"below the mode All":               {size: "1", wholeRoot: true, seal: "-", want: all},
		"another mode":                     {size: "4", edit: func(g *gang.Group) { g.Never = false }, want: all},
		"not placed by the scheduler":      {size: "4", seal: "-", want: all},
		"placed with another mode":         {size: "4", seal: strings.Replace(sealed, `,"never":true`, "", 1), want: all},
		"placed with another class":        {size: "4", seal: strings.Replace(sealed, `"class":"c"`, `"class":"d"`, 1), wantRetryIn: 30 * time.Minute, wantSaid: "(DisruptionModeNever)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := neverClass("c", "3600")
			switch tc.seconds {
			case "":
			case "-":
				delete(class.Annotations, preemptiontoleration.AnnotationNeverSeconds)
			default:
				class = neverClass("c", tc.seconds)
			}
			f := newForest(t, append([]runtime.Object{class, neverClass("d", "1800")}, nodes(1, "4")...)...)
			lead := f.led(tc.wholeRoot)
			if tc.edit != nil {
				f.edit(lead, func(g *gang.Group) {
					g.Never = true
					tc.edit(g)
				})
			}
			scheduled := time.Now().Add(-tc.ago)
			pods := []*corev1.Pod{classed(pod("lead-0", "lead", "1", 0), "c", scheduled)}
			if tc.seal != "-" {
				pods[0].Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: cmp.Or(tc.seal, sealed)}
			}
			for _, worker := range members("work", 3, "1", 0) {
				pods = append(pods, classed(worker, "c", scheduled))
			}
			for _, p := range pods {
				f.create(on(p, "node-0"))
			}
			p := pod("p", "", tc.size, max(tc.priority, 10))
			f.create(p)
			d := f.decideFor(p)
			var got []string
			for _, v := range d.Victims {
				for _, victim := range v.Pods {
					got = append(got, victim.Name)
				}
			}
			if slices.Sort(got); !slices.Equal(got, tc.want) || !strings.Contains(d.Message, tc.wantSaid) {
				t.Errorf("%s: %s, with the victims %v; want %v", d.Outcome, d.Message, got, tc.want)
			}
			want := int64(0)
			if tc.wantRetryIn > 0 {
				want = snapshot.Nanos(scheduled.Add(tc.wantRetryIn)) + 1
			}
			if d.RetryAt != want {
				t.Errorf("retry at %v, want %v", time.Unix(0, d.RetryAt), time.Unix(0, want))
			}
		})
	}
}

// TestNeverOutlivesAStaleTree checks a tree whose workers were lost for longer than staleTimeout.
// Work of the same priority evicts the other members as a whole, and the leader only after its
// time.
func TestNeverOutlivesAStaleTree(t *testing.T) {
	t.Parallel()
	lead := &core.Group{Namespace: "ns", Name: "lead", UID: "lead", Workload: "R", Stale: true, Lacks: 1, Toleration: &core.Toleration{Below: 100, Until: 50, Never: true}}
	tree := &core.Group{Namespace: "ns", Name: "R", UID: "R", Stale: true, Lacks: 1}
	at := func(name string, g *core.Group) core.RunningPod {
		return core.RunningPod{Pod: core.Pod{Namespace: "ns", Name: name, UID: name, Request: core.Amounts{1}}, Group: g, Running: true}
	}
	for name, tc := range map[string]struct {
		now  int64
		size int64
		want []string
	}{
		"room of the others":      {now: 40, size: 2, want: []string{"work-0", "work-1"}},
		"room of all":             {now: 40, size: 3},
		"room of all, after that": {now: 51, size: 3, want: []string{"lead-0", "work-0", "work-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := core.NewCluster([]string{"cpu"})
			state := &core.NodeState{
				Node: core.Node{Name: "n", Free: core.Amounts{0}, Allocatable: core.Amounts{3}},
				Pods: []core.RunningPod{at("work-0", tree), at("lead-0", lead), at("work-1", tree)},
			}
			if err := cluster.SetNode(state); err != nil {
				t.Fatal(err)
			}
			d, err := core.Decide(cluster.Snapshot(), &core.Preemptor{
				Namespace: "ns", Name: "p", UID: "p", Now: tc.now, MinCount: 1,
				Classes: []core.Class{{Request: core.Amounts{tc.size}, Members: []core.Member{{Name: "p", UID: "p"}}}},
			}, core.Arithmetic{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range d.Victims {
				for _, victim := range v.Pods {
					got = append(got, victim.Name)
				}
			}
			if slices.Sort(got); !slices.Equal(got, tc.want) {
				t.Errorf("%s: %s, with the victims %v; want %v", d.Outcome, d.Message, got, tc.want)
			}
		})
	}
}

// TestSealOfNever checks that the seal of a member records the disruption mode Never only if the
// mode has an effect.
func TestSealOfNever(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wholeRoot, want bool
	}{
		"below Single": {want: true},
		"below All":    {wholeRoot: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForest(t, nodes(1, "1")...)
			f.led(tc.wholeRoot)
			lead, worker := pod("lead-0", "lead", "1", 0), pod("work-0", "work", "1", 0)
			f.create(lead, worker)
			if got := f.sched.seals.of(lead); got.Never != tc.want {
				t.Errorf("The seal of the leader is %+v, want never: %t", got, tc.want)
			}
			if got := f.sched.seals.of(worker); got.Never {
				t.Errorf("The seal of the worker is %+v", got)
			}
		})
	}
}

// TestNeverOf checks the verdict on the mode of a running leader, by the PriorityClass in its seal,
// by the toleration of the class and by the root of its tree.
func TestNeverOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tolerates, sealed string
		rootless          bool
		wantReason        string
		wantSaid          string
	}{
		"the current class":           {sealed: "c", wantReason: v1alpha1.ReasonNeverBounded, wantSaid: `first 3600 seconds of the tree's run, by PriorityClass "c"`},
		"another class":               {sealed: "d", wantReason: v1alpha1.ReasonNeverBounded, wantSaid: `first 1800 seconds of the tree's run, by PriorityClass "d", which a member was placed with`},
		"a class that is gone":        {sealed: "e", wantReason: v1alpha1.ReasonPriorityClassNotFound, wantSaid: `"e", which a member was placed with`},
		"a toleration without an end": {tolerates: "-1", sealed: "c", wantReason: v1alpha1.ReasonLongerToleration, wantSaid: "toleration-seconds"},
		"a missing root":              {sealed: "c", rootless: true, wantReason: v1alpha1.ReasonParentNotFound, wantSaid: `names the parent "R", and namespace ns has no CompositePodGroup of that name; create it there`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := neverClass("c", "3600")
			class.Annotations[preemptiontoleration.AnnotationTolerationSeconds] = cmp.Or(tc.tolerates, "0")
			f := newForest(t, append([]runtime.Object{class, neverClass("d", "1800")}, nodes(1, "4")...)...)
			lead := f.led(false)
			p := classed(pod("lead-0", "lead", "1", 0), "c", time.Now())
			p.Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: `{"group":"lead","priority":0,"class":"` + tc.sealed + `","minCount":1,"never":true}`}
			f.create(on(p, "node-0"))
			if tc.rootless {
				f.groups.drop(gang.TreeKey("ns", "R"))
				f.changed(gang.TreeKey("ns", "R"))
			}
			g, ok := f.sched.index.Groups.Group(lead.Key)
			if !ok {
				t.Fatal("the leader's PodGroup is unknown")
			}
			if got := f.sched.NeverOf(g); got.Reason != tc.wantReason || !strings.Contains(got.Message, tc.wantSaid) {
				t.Errorf("NeverOf() = %+v, want the reason %q and %q", got, tc.wantReason, tc.wantSaid)
			}
		})
	}
}
