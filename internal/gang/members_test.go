package gang

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func newIndexer(t *testing.T, pods ...*corev1.Pod) cache.Indexer {
	t.Helper()
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	for range 2 {
		if err := AddIndex(informer); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		if err := informer.GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return informer.GetIndexer()
}

func in(group string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{v1alpha1.LabelPodGroup: group} }
}

func succeeded(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

func TestListerFindsMembers(t *testing.T) {
	t.Parallel()
	elsewhere := named("p", 1, in("g"), func(pod *corev1.Pod) { pod.Namespace = "other" })
	live := newIndexer(t, append(append(named("a", 2, in("g")), named("b", 3, in("h"))...), append(elsewhere, named("c", 1)...)...)...)
	// a-1 has succeeded, but only the second informer knows it.
	finished := newIndexer(t, append(named("a", 2, in("g"), succeeded)[1:], named("d", 1, in("g"), succeeded)...)...)
	m := NewLister(live, finished).Members(types.NamespacedName{Namespace: "ns", Name: "g"})
	if len(m.Pending) != 1 || m.Pending[0].Name != "a-0" || len(m.Succeeded) != 2 || m.Total() != 3 {
		t.Errorf("Members are %+v", m)
	}
	if m.Available() != 3 || m.Placed() != 2 {
		t.Errorf("%d available, %d placed", m.Available(), m.Placed())
	}
}

func TestSortByAge(t *testing.T) {
	t.Parallel()
	pods := named("p", 3)
	pods[0].CreationTimestamp = metav1.Unix(2, 0)
	pods[1].CreationTimestamp = metav1.Unix(1, 0)
	pods[2].CreationTimestamp = metav1.Unix(1, 0)
	pods[1], pods[2] = pods[2], pods[1]
	SortByAge(pods)
	for i, want := range []string{"p-1", "p-2", "p-0"} {
		if pods[i].Name != want {
			t.Errorf("Pod %d is %s, want %s", i, pods[i].Name, want)
		}
	}
}

func TestFromPodGroup(t *testing.T) {
	t.Parallel()
	start := metav1.Unix(7, 0)
	ref := &v1alpha1.PodGroupTemplateReference{WorkloadName: "w", PodGroupTemplateName: "t"}
	gangOf := func(n int32) *v1alpha1.SchedulingPolicy {
		return &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: n}}
	}
	base := Group{Key: types.NamespacedName{Namespace: "ns", Name: "g"}, UID: "u"}
	cases := map[string]struct {
		change func(*v1alpha1.PodGroup)
		want   func(*Group)
	}{
		"basic": {
			func(pg *v1alpha1.PodGroup) {
				pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
			},
			func(*Group) {},
		},
		"gang": {
			func(pg *v1alpha1.PodGroup) { pg.Spec.SchedulingPolicy = gangOf(4) },
			func(g *Group) { g.MinCount = 4 },
		},
		"whole, with a class and a priority": {
			func(pg *v1alpha1.PodGroup) {
				pg.Spec.SchedulingPolicy = gangOf(2)
				pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
				pg.Spec.PriorityClassName = ptr.To("high")
				pg.Spec.Priority = ptr.To[int32](9)
			},
			func(g *Group) {
				g.MinCount, g.Whole, g.PriorityClassName, g.Priority = 2, true, "high", ptr.To[int32](9)
			},
		},
		"of another API, without priorities": {
			func(pg *v1alpha1.PodGroup) { pg.APIVersion = "scheduling.k8s.io/v1alpha2" },
			func(g *Group) { g.APIVersion, g.PodPriorities = "scheduling.k8s.io/v1alpha2", true },
		},
		"of another API, with one": {
			func(pg *v1alpha1.PodGroup) {
				pg.APIVersion, pg.Spec.Priority = "scheduling.k8s.io/v1alpha2", ptr.To[int32](3)
			},
			func(g *Group) { g.APIVersion, g.Priority = "scheduling.k8s.io/v1alpha2", ptr.To[int32](3) },
		},
		"of another API, with more": {
			func(pg *v1alpha1.PodGroup) {
				pg.APIVersion, pg.Annotations = "scheduling.k8s.io/v1alpha2", map[string]string{AnnotationUnsupported: "spec.x"}
			},
			func(g *Group) {
				g.APIVersion, g.PodPriorities, g.Unsupported = "scheduling.k8s.io/v1alpha2", true, "spec.x"
			},
		},
		"of this API, with a note that nobody asked for": {
			func(pg *v1alpha1.PodGroup) { pg.Annotations = map[string]string{AnnotationUnsupported: "spec.x"} },
			func(*Group) {},
		},
		"of this API, by name": {
			func(pg *v1alpha1.PodGroup) { pg.APIVersion = v1alpha1.SchemeGroupVersion.String() },
			func(*Group) {},
		},
		"a resolved policy": {
			func(pg *v1alpha1.PodGroup) { pg.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) },
			func(g *Group) { g.PreemptionPolicy = corev1.PreemptNever },
		},
		"pods go one by one": {
			func(pg *v1alpha1.PodGroup) { pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePod) },
			func(*Group) {},
		},
		"a template that is to be filled in": {
			func(pg *v1alpha1.PodGroup) { pg.Spec.PodGroupTemplateRef = ref },
			func(g *Group) { g.Template = "w/t" },
		},
		"a template that has been filled in": {
			func(pg *v1alpha1.PodGroup) { pg.Spec.PodGroupTemplateRef, pg.Spec.SchedulingPolicy = ref, gangOf(1) },
			func(g *Group) { g.MinCount = 1 },
		},
		"a topology key": {
			func(pg *v1alpha1.PodGroup) {
				pg.Spec.SchedulingConstraints = &v1alpha1.SchedulingConstraints{Topology: []v1alpha1.TopologyConstraint{{Key: "rack"}}}
			},
			func(g *Group) { g.TopologyKey = "rack" },
		},
		"preferred levels inside of a topology key": {
			func(pg *v1alpha1.PodGroup) {
				pg.Spec.SchedulingConstraints = &v1alpha1.SchedulingConstraints{Topology: []v1alpha1.TopologyConstraint{
					{Key: "rack", Mode: v1alpha1.TopologyModePreferred}, {Key: "block", Mode: v1alpha1.TopologyModePreferred},
					{Key: "zone", Mode: v1alpha1.TopologyModeRequired},
				}}
			},
			func(g *Group) { g.TopologyKey, g.PreferredKeys = "zone", []string{"rack", "block"} },
		},
		"started": {
			func(pg *v1alpha1.PodGroup) { pg.Status.StartTime = &start },
			func(g *Group) { g.StartTime = time.Unix(7, 0) },
		},
		"stopped": {
			func(pg *v1alpha1.PodGroup) {
				pg.Status.LastDisruption = &v1alpha1.LastDisruption{Count: 3, Stops: 2, StopTime: &start}
			},
			func(g *Group) { g.Stops, g.StoppedAt = 2, start.Time },
		},
		"preempted without a stop": {
			func(pg *v1alpha1.PodGroup) { pg.Status.LastDisruption = &v1alpha1.LastDisruption{Count: 3} },
			func(*Group) {},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "u"}}
			c.change(pg)
			want := base
			c.want(&want)
			got := FromPodGroup(pg)
			if !got.StartTime.Equal(want.StartTime) || ptr.Deref(got.Priority, -1) != ptr.Deref(want.Priority, -1) {
				t.Errorf("Got %+v, want %+v", got, want)
			}
			got.StartTime, want.StartTime, got.Priority, want.Priority = time.Time{}, time.Time{}, nil, nil
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("Got %+v, want %+v", *got, want)
			}
		})
	}
}
