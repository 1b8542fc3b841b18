package controller

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// TestGroupsTellOfWhatBearsOnScheduling checks that Groups reports only changes that affect
// scheduling.
func TestGroupsTellOfWhatBearsOnScheduling(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*v1alpha1.PodGroup)
		want   bool
	}{
		"nothing":     {func(*v1alpha1.PodGroup) {}, false},
		"a label":     {func(pg *v1alpha1.PodGroup) { pg.Labels = map[string]string{"a": "b"} }, false},
		"its counts":  {func(pg *v1alpha1.PodGroup) { pg.Status.Running = 7 }, false},
		"a condition": {func(pg *v1alpha1.PodGroup) { pg.Status.Conditions = []metav1.Condition{{Type: "x"}} }, false},
		"its start":   {func(pg *v1alpha1.PodGroup) { pg.Status.StartTime = &metav1.Time{Time: time.Unix(9, 0)} }, true},
		"its priority": {func(pg *v1alpha1.PodGroup) {
			pg.Spec.Priority = ptr.To[int32](9)
		}, true},
		"who goes": {func(pg *v1alpha1.PodGroup) {
			pg.Status.Disruption = &v1alpha1.PodGroupDisruption{Pods: []v1alpha1.DisruptedPod{{Name: "p"}}}
		}, true},
		"a checkpoint": {func(pg *v1alpha1.PodGroup) {
			pg.Annotations = map[string]string{v1alpha1.AnnotationLastCheckpoint: "2026-01-31T15:04:05Z"}
		}, false},
		"a stop": {func(pg *v1alpha1.PodGroup) {
			pg.Status.LastDisruption = &v1alpha1.LastDisruption{Count: 1, Stops: 1, StopTime: &metav1.Time{Time: time.Unix(9, 0)}}
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []types.NamespacedName
			saved := 0
			groups := &Groups{}
			h := groups.handler(readPodGroup, GroupHandlers{
				Changed: func(key types.NamespacedName) {
					if g, ok := groups.Group(key); ok && len(told) == 0 && g.MinCount != 2 {
						t.Errorf("Told of %+v", g)
					}
					told = append(told, key)
				},
				Saved: func(types.NamespacedName) { saved++ },
			})
			pg := gangGroup(2)
			h.OnAdd(pg, true)
			after := pg.DeepCopy()
			c.change(after)
			h.OnUpdate(pg, after)
			want := []types.NamespacedName{groupKey}
			if c.want {
				want = append(want, groupKey)
			}
			if !slices.Equal(told, want) {
				t.Errorf("Told of %v, want %v", told, want)
			}
			isSaved, isStop := name == "a checkpoint", name == "a stop"
			if g, ok := groups.Group(groupKey); !ok || (saved == 1) != (isSaved || isStop) || g.Progress.Saved.IsZero() == isSaved || (g.Stops == 0) == isStop {
				t.Errorf("Told %d times of another cost: %+v", saved, g)
			}
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: after})
			if _, ok := groups.Group(groupKey); ok || len(told) != len(want)+1 {
				t.Errorf("It is still there: %t; told of %v", ok, told)
			}
		})
	}
}

// TestGroupReplacedInOneUpdate checks a PodGroup that is deleted and replaced, when the informer
// reports both as one update. The handler must report the deletion first, and then the replacement.
func TestGroupReplacedInOneUpdate(t *testing.T) {
	t.Parallel()
	groups := &Groups{}
	var uids []types.UID
	h := groups.handler(readPodGroup, GroupHandlers{
		Changed: func(key types.NamespacedName) {
			uid := types.UID("none")
			if g, ok := groups.Group(key); ok {
				uid = g.UID
			}
			uids = append(uids, uid)
		},
		Saved: func(types.NamespacedName) { t.Error("The handler reported another cost") },
	})
	before := gangGroup(2)
	before.UID = "before"
	after := before.DeepCopy()
	after.UID = "after"
	h.OnAdd(before, true)
	h.OnUpdate(before, after)
	if want := []types.UID{"before", "none", "after"}; !slices.Equal(uids, want) {
		t.Errorf("The reports had the PodGroups %v, want %v", uids, want)
	}
}

// TestNativeGroupsHaveTheirLabels checks that native groups have their labels and annotations. A
// label names the queue, and annotations hold the progress of the work.
func TestNativeGroupsHaveTheirLabels(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: native.Group, Version: "v1alpha2", Kind: "PodGroup"}
	var informers informertest.FakeInformers
	var told []types.NamespacedName
	groups, err := NewNativeGroups(t.Context(), &informers, kind, GroupHandlers{
		Changed: func(key types.NamespacedName) { told = append(told, key) }, Saved: func(types.NamespacedName) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	informer, err := informers.FakeInformerFor(t.Context(), native.NewObject(kind))
	if err != nil {
		t.Fatal(err)
	}
	before := native.NewObject(kind)
	before.SetNamespace("ns")
	before.SetName("g")
	informer.Add(before)
	after := before.DeepCopy()
	after.SetLabels(map[string]string{v1alpha1.LabelQueue: "research"})
	after.SetAnnotations(map[string]string{v1alpha1.AnnotationRestartCost: "1m", "other": "x"})
	informer.Update(before, after)
	if g, ok := groups.Group(groupKey); !ok || g.Labels[v1alpha1.LabelQueue] != "research" || g.Progress.Restart != time.Minute || len(told) != 2 {
		t.Errorf("Told %d times of %+v", len(told), g)
	}
}

func readPodGroup(obj any) (*gang.Group, bool) {
	pg, ok := obj.(*v1alpha1.PodGroup)
	if !ok {
		return nil, false
	}
	return gang.FromPodGroup(pg), true
}
