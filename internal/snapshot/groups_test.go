package snapshot

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// scheduledAt sets when a pod was scheduled.
func scheduledAt(p *corev1.Pod, at time.Time) *corev1.Pod {
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at),
	}}
	return p
}

// TestGroups checks the priority of PodGroups as victims, and the start of their protection.
func TestGroups(t *testing.T) {
	t.Parallel()
	start, later := time.Unix(1000, 0), time.Unix(2000, 0)
	placed := []*corev1.Pod{scheduledAt(pod("a", "g", "1", 3), start), scheduledAt(pod("b", "g", "1", 5), later)}
	for _, pod := range placed {
		pod.Spec.NodeName = "node-0"
	}
	assumed := pod("d", "g", "1", 3)
	cases := map[string]struct {
		group        gang.Group
		placed       []*corev1.Pod
		sealed       engine.Sealed
		stale        bool
		wantNone     bool
		wantPriority int32
		wantRaisedBy int64
		wantSince    time.Time
		wantMinCount int32
	}{
		"a gang, pod by pod": {group: gang.Group{MinCount: 2, Priority: ptr.To[int32](7), StartTime: start}, wantPriority: 7, wantSince: start, wantMinCount: 2},
		"its members were placed by less": {
			group:  gang.Group{MinCount: 4, Priority: ptr.To[int32](7), StartTime: start},
			sealed: engine.Sealed{Known: true, Priority: 3, MinCount: 2}, wantPriority: 3, wantSince: start, wantMinCount: 2,
		},
		"its members were placed by more": {
			group:  gang.Group{MinCount: 2, Priority: ptr.To[int32](7), StartTime: start},
			sealed: engine.Sealed{Known: true, Priority: 9, MinCount: 5}, wantPriority: 7, wantSince: start, wantMinCount: 2,
		},
		"its preemption priority is higher": {
			group:        gang.Group{MinCount: 2, Priority: ptr.To[int32](7), StartTime: start, PreemptionPriorityClass: "c"},
			wantPriority: 100, wantRaisedBy: 93, wantSince: start, wantMinCount: 2,
		},
		"placed by less, its preemption priority is higher": {
			group:  gang.Group{MinCount: 2, Priority: ptr.To[int32](7), StartTime: start, PreemptionPriorityClass: "c"},
			sealed: engine.Sealed{Known: true, Priority: 3, MinCount: 2}, wantPriority: 100, wantRaisedBy: 97, wantSince: start, wantMinCount: 2,
		},
		"placed by less, its preemption priority is lower than its own": {
			group:  gang.Group{MinCount: 2, Priority: ptr.To[int32](700), StartTime: start, PreemptionPriorityClass: "c"},
			sealed: engine.Sealed{Known: true, Priority: 3, MinCount: 2}, wantPriority: 3, wantSince: start, wantMinCount: 2,
		},
		"stale, its preemption priority is higher": {
			group: gang.Group{MinCount: 2, Priority: ptr.To[int32](7), StartTime: start, PreemptionPriorityClass: "c"}, stale: true,
			wantPriority: 7, wantSince: start,
		},
		"a gang, as a whole": {group: gang.Group{MinCount: 2, Priority: ptr.To[int32](7), StartTime: start, Whole: true}, wantPriority: 7, wantSince: start},
		"as a whole, and its members were placed pod by pod": {
			group:  gang.Group{MinCount: 2, Priority: ptr.To[int32](7), StartTime: start, Whole: true},
			sealed: engine.Sealed{Known: true, Priority: 7, MinCount: 2, Split: true}, wantPriority: 7, wantSince: start, wantMinCount: 2,
		},
		"their own priorities, as a whole, and placed pod by pod": {
			group: gang.Group{PodPriorities: true, Whole: true}, placed: placed, sealed: engine.Sealed{Known: true, Split: true}, wantNone: true,
		},
		"the latest member where it has no start": {group: gang.Group{Priority: ptr.To[int32](7)}, placed: placed, wantPriority: 7, wantSince: later},
		"none yet where a member is being bound": {
			group: gang.Group{Priority: ptr.To[int32](7)}, placed: []*corev1.Pod{placed[0], assumed}, wantPriority: 7,
		},
		"the highest member where it has no priority": {group: gang.Group{StartTime: start, Whole: true}, placed: placed, wantPriority: 5, wantSince: start},
		"neither priority nor members":                {group: gang.Group{StartTime: start}, wantPriority: math.MaxInt32, wantSince: start},
		"pods one by one, by their own priorities":    {group: gang.Group{PodPriorities: true}, wantNone: true},
		"their own priorities, sealed, as a whole": {
			group: gang.Group{PodPriorities: true, Whole: true}, placed: placed, sealed: engine.Sealed{Known: true, Priority: 3},
			wantPriority: 5, wantSince: later,
		},
		"their own priorities, but as a whole": {group: gang.Group{PodPriorities: true, Whole: true}, placed: placed, wantPriority: 5, wantSince: later},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFacts()
			sources := f.sources()
			c.group.Key, f.placed, f.sealed = key("g"), c.placed, c.sealed
			f.degraded = map[types.NamespacedName]Degraded{c.group.Key: {Stale: c.stale}}
			f.groups[c.group.Key] = &c.group
			got := sources.group(c.group.Key)
			if c.wantNone || got == nil {
				if c.wantNone != (got == nil) {
					t.Errorf("The group is %+v", got)
				}
				return
			}
			minCount := int32(0)
			if got.Membership != nil {
				minCount = got.Membership.MinCount
			}
			if got.RaisedBy != c.wantRaisedBy {
				t.Errorf("The priority is raised by %d, want %d", got.RaisedBy, c.wantRaisedBy)
			}
			if got.Priority != c.wantPriority || got.Since != Nanos(c.wantSince) || minCount != c.wantMinCount {
				t.Errorf("Priority %d since %d, minCount %d; want %d since %d, minCount %d",
					got.Priority, got.Since, minCount, c.wantPriority, Nanos(c.wantSince), c.wantMinCount)
			}
		})
	}
	sources := newFacts().sources()
	if sources.group(key("g")) != nil {
		t.Error("A group that does not exist is known")
	}
}

// byClass is a source of tolerations that has one for each class name.
type byClass struct {
	*facts
	classes map[string]*core.Toleration
}

func (c byClass) OfClass(name string, _ time.Time) *core.Toleration { return c.classes[name] }

// TestTolerationOfMixedMembers checks the toleration of a group whose members were placed with
// different classes. A forged seal with a low priority must not hide the classes of the other
// members.
func TestTolerationOfMixedMembers(t *testing.T) {
	t.Parallel()
	sealed := func(name, class string) *corev1.Pod {
		p := scheduledAt(pod(name, "g", "1", 5), time.Unix(1000, 0))
		p.Spec.NodeName = "node-0"
		p.Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: `{"group":"g","priority":1,"class":"` + class + `"}`}
		return p
	}
	forever := &core.Toleration{Below: 9, Until: core.Forever}
	for name, c := range map[string]struct {
		placed []*corev1.Pod
		mixed  bool
		want   *core.Toleration
	}{
		"one class":                {placed: []*corev1.Pod{sealed("a", "sturdy"), sealed("b", "sturdy")}, want: forever},
		"a class without any":      {placed: []*corev1.Pod{sealed("a", "sturdy"), sealed("b", "low")}, mixed: true},
		"a class that is weaker":   {placed: []*corev1.Pod{sealed("a", "sturdy"), sealed("b", "brief")}, mixed: true, want: &core.Toleration{Below: 9, Until: 100}},
		"a member without a seal":  {placed: []*corev1.Pod{sealed("a", "sturdy"), pod("b", "g", "1", 5)}, want: forever},
		"a seal that is only text": {placed: []*corev1.Pod{sealed("a", `",`), sealed("b", "low"), sealed("c", "sturdy")}, mixed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFacts()
			g := &gang.Group{Key: key("g"), Priority: ptr.To[int32](7), PriorityClassName: "sturdy"}
			f.groups[g.Key], f.placed = g, c.placed
			sources := f.sources()
			sources.Tolerations = byClass{f, map[string]*core.Toleration{"sturdy": forever, "brief": {Below: 9, Until: 100}}}
			got := sources.sealedToleration(&engine.Sealed{Known: true, Class: "sturdy", Mixed: c.mixed}, g, forever, time.Unix(1000, 0))
			if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// TestSealOfASingle checks the facts about a pod whose group no longer exists. Its seal can only
// reduce its protection.
func TestSealOfASingle(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	cases := map[string]struct {
		seal         string
		wantPriority int32
		wantSince    time.Time
	}{
		"placed by less": {`{"group":"g","priority":3,"since":"1970-01-01T00:16:40Z"}`, 3, early},
		"placed by more": {`{"group":"g","priority":9,"since":"1970-01-01T00:50:00Z"}`, 5, late},
		"no seal":        {"", 5, late},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := scheduledAt(pod("a", "g", "1", 5), late)
			p.Spec.NodeName, p.Annotations = "node-0", map[string]string{v1alpha1.AnnotationPlacedAs: c.seal}
			sources := newFacts().sources()
			rp := core.RunningPod{Priority: 5, Since: Nanos(late)}
			sources.sealSingle(&rp, p)
			if rp.Priority != c.wantPriority || rp.Since != Nanos(c.wantSince) {
				t.Errorf("Priority %d since %d, want %d since %d", rp.Priority, rp.Since, c.wantPriority, Nanos(c.wantSince))
			}
		})
	}
}

// TestWeaker checks the protection that two tolerations have in common.
func TestWeaker(t *testing.T) {
	t.Parallel()
	forever := &core.Toleration{Below: 5, Until: core.Forever}
	begun, later := &core.Toleration{Below: 9, Until: 100}, &core.Toleration{Below: 3, Until: 200}
	for name, c := range map[string]struct{ a, b, want *core.Toleration }{
		"none":         {a: begun},
		"the sooner":   {a: later, b: begun, want: &core.Toleration{Below: 3, Until: 100}},
		"not forever":  {a: begun, b: forever, want: &core.Toleration{Below: 5, Until: 100}},
		"both forever": {a: forever, b: forever, want: forever},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, got := range []*core.Toleration{weaker(c.a, c.b), weaker(c.b, c.a)} {
				if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
					t.Errorf("%+v, want %+v", got, c.want)
				}
			}
		})
	}
}
