package controller

import (
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// TestTolerations: each change that leaves a class malformed is told once, and the count follows.
func TestTolerations(t *testing.T) {
	t.Parallel()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	recorder := events.NewFakeRecorder(10)
	count := -1
	r := NewTolerations(schedulinglisters.NewPriorityClassLister(store), recorder, func(n int) { count = n })
	look := func(seconds string) []string {
		t.Helper()
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
		if seconds != "" {
			class.Annotations = map[string]string{preemptiontoleration.AnnotationTolerationSeconds: seconds}
		}
		if err := store.Update(class); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "c"}}); err != nil {
			t.Fatal(err)
		}
		var told []string
		for len(recorder.Events) > 0 {
			told = append(told, <-recorder.Events)
		}
		return told
	}
	for _, step := range []struct {
		seconds   string
		wantTold  string
		wantCount int
	}{
		{"60", "", -1},
		{"1h", `"1h"`, 1},
		{"1h", "", 1},
		{"1d", `"1d"`, 1},
		{"60", "", 0},
		{"1d", `"1d"`, 1},
		{"", "", 0},
	} {
		told := look(step.seconds)
		if step.wantTold == "" && len(told) > 0 || step.wantTold != "" && (len(told) != 1 || !strings.Contains(told[0], step.wantTold)) {
			t.Errorf("after %q: told %q, want %q", step.seconds, told, step.wantTold)
		}
		if count != step.wantCount {
			t.Errorf("after %q: %d malformed, want %d", step.seconds, count, step.wantCount)
		}
	}
}
