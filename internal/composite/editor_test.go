package composite_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/composite"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestEditor checks that an Editor creates, changes and deletes a CompositePodGroup as a PodGroup.
func TestEditor(t *testing.T) {
	t.Parallel()
	_, inner := newClient(t)
	e := composite.NewEditor(inner)
	key := gang.TreeKey("ml", "made")
	mode := v1alpha1.DisruptionModePodGroup
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"a": "b"}}}
	pg.Spec.DisruptionMode = &mode
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 3}}
	if err := e.Create(t.Context(), pg); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want int32) {
		t.Helper()
		var c v1alpha1.CompositePodGroup
		if err := inner.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "made"}, &c); err != nil {
			t.Fatal(err)
		}
		if c.Spec.SchedulingPolicy.Gang.MinGroupCount != want || *c.Spec.DisruptionMode != v1alpha1.CompositeDisruptionModeAll || c.Labels["a"] != "b" {
			t.Errorf("%s: it is %+v, want %d groups", when, c, want)
		}
	}
	check("created", 3)
	var got v1alpha1.PodGroup
	if err := e.Get(t.Context(), key, &got); err != nil || got.Spec.SchedulingPolicy.Gang.MinCount != 3 {
		t.Fatalf("it reads %+v, error %v", got.Spec, err)
	}
	before := got.DeepCopy()
	got.Spec.SchedulingPolicy.Gang.MinCount = 5
	if err := e.Patch(t.Context(), &got, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		t.Fatal(err)
	}
	check("patched", 5)
	outdated := before.DeepCopy()
	outdated.Spec.SchedulingPolicy.Gang.MinCount = 1
	if err := e.Patch(t.Context(), outdated, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an outdated version: %v", err)
	}
	if err := e.Delete(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	if err := e.Get(t.Context(), key, &got); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}
