package controller

import (
	"context"
	"errors"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func classes(t *testing.T, all ...*schedulingv1.PriorityClass) schedulinglisters.PriorityClassLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, c := range all {
		if err := indexer.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	return schedulinglisters.NewPriorityClassLister(indexer)
}

func class(name string, value int32, isDefault bool) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: isDefault}
}

func TestPriorityIsResolvedAsForPods(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		classes []*schedulingv1.PriorityClass
		class   *string
		given   *int32
		want    *int32
	}{
		"the named class":                   {classes: []*schedulingv1.PriorityClass{class("a", 7, false), class("d", 3, true)}, class: ptr.To("a"), want: ptr.To[int32](7)},
		"a named class that does not exist": {classes: []*schedulingv1.PriorityClass{class("d", 3, true)}, class: ptr.To("a")},
		"the global default":                {classes: []*schedulingv1.PriorityClass{class("a", 7, false), class("d", 3, true)}, want: ptr.To[int32](3)},
		"the lowest of several defaults":    {classes: []*schedulingv1.PriorityClass{class("c", 2, true), class("d", 3, true)}, want: ptr.To[int32](2)},
		"nothing":                           {want: ptr.To[int32](0)},
		"what has been filled in stays":     {classes: []*schedulingv1.PriorityClass{class("a", 7, false)}, class: ptr.To("a"), given: ptr.To[int32](1), want: ptr.To[int32](1)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := gangGroup(2)
			pg.Spec.PriorityClassName, pg.Spec.Priority = c.class, c.given
			cl := newClient(t, pg)
			if _, err := NewResolver(cl, classes(t, c.classes...), events.NewFakeRecorder(1)).Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey}); err != nil {
				t.Fatal(err)
			}
			var got v1alpha1.PodGroup
			if err := cl.Get(t.Context(), groupKey, &got); err != nil {
				t.Fatal(err)
			}
			if !ptr.Equal(got.Spec.Priority, c.want) {
				t.Errorf("Priority is %v, want %v", ptr.Deref(got.Spec.Priority, -1), ptr.Deref(c.want, -1))
			}
		})
	}
}

func TestTemplateIsFilledIn(t *testing.T) {
	t.Parallel()
	w := &v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w"}}
	w.Spec.PodGroupTemplates = []v1alpha1.PodGroupTemplate{
		{Name: "other"},
		{Name: "workers", PodGroupPolicy: v1alpha1.PodGroupPolicy{
			SchedulingPolicy:  gangGroup(4).Spec.SchedulingPolicy,
			DisruptionMode:    ptr.To(v1alpha1.DisruptionModePodGroup),
			PriorityClassName: ptr.To("a"),
		}},
	}
	ref := func(name string) *v1alpha1.PodGroupTemplateReference {
		return &v1alpha1.PodGroupTemplateReference{WorkloadName: "w", PodGroupTemplateName: name}
	}
	cases := map[string]struct {
		objects []client.Object
		change  func(*v1alpha1.PodGroup)
		check   func(*v1alpha1.PodGroup) bool
	}{
		"all of it": {
			objects: []client.Object{w}, change: func(pg *v1alpha1.PodGroup) { pg.Spec.PodGroupTemplateRef = ref("workers") },
			check: func(pg *v1alpha1.PodGroup) bool {
				return pg.Spec.SchedulingPolicy.Gang.MinCount == 4 && ptr.Deref(pg.Spec.Priority, 0) == 7 &&
					*pg.Spec.DisruptionMode == v1alpha1.DisruptionModePodGroup && *pg.Spec.PriorityClassName == "a"
			},
		},
		"what is unset": {
			objects: []client.Object{w},
			change: func(pg *v1alpha1.PodGroup) {
				pg.Spec.PodGroupTemplateRef = ref("workers")
				pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePod)
			},
			check: func(pg *v1alpha1.PodGroup) bool {
				return *pg.Spec.DisruptionMode == v1alpha1.DisruptionModePod && pg.Spec.SchedulingPolicy.Gang.MinCount == 4
			},
		},
		"no such template": {
			objects: []client.Object{w}, change: func(pg *v1alpha1.PodGroup) { pg.Spec.PodGroupTemplateRef = ref("gone") },
			check: func(pg *v1alpha1.PodGroup) bool { return pg.Spec.SchedulingPolicy == nil && pg.Spec.Priority == nil },
		},
		"no such Workload": {
			change: func(pg *v1alpha1.PodGroup) { pg.Spec.PodGroupTemplateRef = ref("workers") },
			check:  func(pg *v1alpha1.PodGroup) bool { return pg.Spec.SchedulingPolicy == nil && pg.Spec.Priority == nil },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
			c.change(pg)
			objects := []client.Object{pg}
			for _, o := range c.objects {
				if w, ok := o.(*v1alpha1.Workload); ok {
					objects = append(objects, w.DeepCopy())
				}
			}
			cl := newClient(t, objects...)
			if _, err := NewResolver(cl, classes(t, class("a", 7, false)), events.NewFakeRecorder(1)).Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey}); err != nil {
				t.Fatal(err)
			}
			var got v1alpha1.PodGroup
			if err := cl.Get(t.Context(), groupKey, &got); err != nil {
				t.Fatal(err)
			}
			if !c.check(&got) {
				t.Errorf("The group is %+v", got.Spec)
			}
		})
	}
}

// TestTemplateThatIsRefused: the user hears of it, and nobody tries again.
func TestTemplateThatIsRefused(t *testing.T) {
	t.Parallel()
	pg := gangGroup(2)
	pg.Spec.Priority = nil
	invalid := apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("PodGroup").GroupKind(), "g", nil)
	cl := interceptor.NewClient(newWithWatch(t, pg), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return invalid
		},
	})
	recorder := events.NewFakeRecorder(1)
	result, err := NewResolver(cl, classes(t), recorder).Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey})
	if err != nil || !result.IsZero() || len(recorder.Events) != 1 {
		t.Errorf("Again: %+v, error: %v, %d events", result, err, len(recorder.Events))
	}
}

func TestConflictsAreTriedAgain(t *testing.T) {
	t.Parallel()
	resource := v1alpha1.SchemeGroupVersion.WithResource("podgroups").GroupResource()
	cases := map[string]struct {
		err        error
		wantAgain  bool
		wantFailed bool
	}{
		"conflict":  {err: apierrors.NewConflict(resource, "g", errors.New("x")), wantAgain: true},
		"not found": {err: apierrors.NewNotFound(resource, "g")},
		"other":     {err: errors.New("x"), wantFailed: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := retryConflict(c.err)
			if (result.RequeueAfter > 0) != c.wantAgain || (err != nil) != c.wantFailed {
				t.Errorf("Again after %v, failed with %v", result.RequeueAfter, err)
			}
		})
	}
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	var trigger Trigger
	trigger.Request(types.NamespacedName{Name: "too early"})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := trigger.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	trigger.Request(groupKey)
	trigger.Request(groupKey)
	if n := queue.Len(); n != 1 {
		t.Fatalf("%d requests", n)
	}
	if got, _ := queue.Get(); got.NamespacedName != groupKey {
		t.Errorf("Request for %v", got)
	}
}
