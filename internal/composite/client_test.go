package composite_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/composite"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

func newClient(t *testing.T) (*composite.Client, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	all := v1alpha1.CompositeDisruptionModeAll
	tree := &v1alpha1.CompositePodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "serving", UID: "1"},
		Spec: v1alpha1.CompositePodGroupSpec{
			DisruptionMode:   &all,
			SchedulingPolicy: v1alpha1.CompositeSchedulingPolicy{Gang: &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: 2}},
		},
	}
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "serving", UID: "2"}}
	inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tree, group).WithStatusSubresource(tree, group).Build()
	return composite.NewClient(inner), inner
}

func TestGetsBothKinds(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	for key, want := range map[client.ObjectKey]string{
		gang.TreeKey("ml", "serving"):      "1",
		{Namespace: "ml", Name: "serving"}: "2",
	} {
		var pg v1alpha1.PodGroup
		if err := c.Get(t.Context(), key, &pg); err != nil || string(pg.UID) != want || client.ObjectKeyFromObject(&pg) != key {
			t.Errorf("%v: got %s %v, error %v; want UID %s", key, client.ObjectKeyFromObject(&pg), pg.UID, err, want)
		}
	}
	var pg v1alpha1.PodGroup
	if err := c.Get(t.Context(), gang.TreeKey("ml", "gone"), &pg); !apierrors.IsNotFound(err) {
		t.Errorf("a missing tree: %v", err)
	}
	var list v1alpha1.PodGroupList
	if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 2 {
		t.Errorf("%d PodGroups, error %v", len(list.Items), err)
	}
}

func TestWritesStatus(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, c client.Client, before, after *v1alpha1.PodGroup) error{
		"update": func(ctx context.Context, c client.Client, _, after *v1alpha1.PodGroup) error {
			return c.Status().Update(ctx, after)
		},
		"patch": func(ctx context.Context, c client.Client, before, after *v1alpha1.PodGroup) error {
			return c.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, inner := newClient(t)
			var pg v1alpha1.PodGroup
			if err := c.Get(t.Context(), gang.TreeKey("ml", "serving"), &pg); err != nil {
				t.Fatal(err)
			}
			before, stale := pg.DeepCopy(), pg.DeepCopy()
			pg.Status.Pending = 3
			if err := write(t.Context(), c, before, &pg); err != nil {
				t.Fatal(err)
			}
			var tree v1alpha1.CompositePodGroup
			if err := inner.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "serving"}, &tree); err != nil || tree.Status.Pending != 3 {
				t.Errorf("the status has %d pending, error %v", tree.Status.Pending, err)
			}
			if tree.ResourceVersion != pg.ResourceVersion {
				t.Errorf("version %s, want %s", pg.ResourceVersion, tree.ResourceVersion)
			}
			changed := stale.DeepCopy()
			changed.Status.Pending = 4
			if err := write(t.Context(), c, stale, changed); !apierrors.IsConflict(err) {
				t.Errorf("a write of an old version: %v, want a conflict", err)
			}
			var group v1alpha1.PodGroup
			if err := inner.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "serving"}, &group); err != nil || group.Status.Pending != 0 {
				t.Errorf("the PodGroup of the same name has %d pending, error %v", group.Status.Pending, err)
			}
		})
	}
}
