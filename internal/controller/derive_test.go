package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// derivedGroup is the only group that there is.
type derivedGroup struct {
	gang.Named
	group   grouping.Group
	unknown bool
}

func (d *derivedGroup) Group(types.NamespacedName) (grouping.Group, bool) {
	return d.group, !d.unknown
}
func (d *derivedGroup) Recall(types.NamespacedName, types.UID) {}
func (d *derivedGroup) Hold(*corev1.Pod) gang.Verdict          { return gang.Verdict{} }

// listed are the members of any group.
type listed gang.Members

func (l listed) Members(types.NamespacedName) gang.Members { return gang.Members(l) }

// classesOf has PriorityClasses by their values.
func classesOf(t *testing.T, values map[string]int32) schedulinglisters.PriorityClassLister {
	t.Helper()
	classes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, value := range values {
		if err := classes.Add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	return schedulinglisters.NewPriorityClassLister(classes)
}

func TestDerive(t *testing.T) {
	t.Parallel()
	owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job"}
	pod := func(name, class string, priority int32) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"queue": "of-pods"}},
			Spec:       corev1.PodSpec{PriorityClassName: class, Priority: &priority},
		}
	}
	written := func(change func(*v1alpha1.PodGroup)) *v1alpha1.PodGroup {
		pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "g", OwnerReferences: []metav1.OwnerReference{owner}}}
		pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 4}}
		if change != nil {
			change(pg)
		}
		return pg
	}
	ownerless := func(pg *v1alpha1.PodGroup) {
		pg.OwnerReferences, pg.Labels, pg.Annotations = nil, map[string]string{labelManagedBy: managedBy}, map[string]string{annotationMadeFrom: madeFromPods}
	}
	never := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		return pod
	}
	pending := listed{Pending: []*corev1.Pod{pod("a", "high", 10), pod("b", "low", 5)}}
	tests := map[string]struct {
		group   grouping.Group
		unknown bool
		members listed
		before  *v1alpha1.PodGroup
		// wantCount is 0 where there is to be none.
		wantCount int32
		want      func(*v1alpha1.PodGroup) bool
		wantEvent string
	}{
		"the first pods": {group: grouping.Group{MinCount: 4}, members: pending, wantCount: 4, want: func(pg *v1alpha1.PodGroup) bool {
			o := pg.OwnerReferences[0]
			return o.UID == "job" && o.Controller == nil && o.BlockOwnerDeletion == nil && *pg.Spec.PriorityClassName == "low" && *pg.Spec.QueueName == "of-pods" && pg.Spec.DisruptionMode == nil
		}},
		"the object's own wishes": {
			group:   grouping.Group{MinCount: 4, Choice: grouping.Choice{Queue: "mine", DefaultQueue: "default", PriorityClass: "idle", DisruptionMode: "PodGroup"}},
			members: pending, wantCount: 4, want: func(pg *v1alpha1.PodGroup) bool {
				return *pg.Spec.QueueName == "mine" && *pg.Spec.PriorityClassName == "idle" && *pg.Spec.DisruptionMode == v1alpha1.DisruptionModePodGroup
			},
		},
		"a class above that of the pods": {
			group: grouping.Group{MinCount: 4, Choice: grouping.Choice{PriorityClass: "high"}}, members: pending, wantCount: 4,
			want:      func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.PriorityClassName == "low" },
			wantEvent: `asks for reprieve.dev/priority-class: "high", whose priority 10 is above that of its pods, 5`,
		},
		"a class that may preempt, of pods that may not": {
			group: grouping.Group{MinCount: 4, Choice: grouping.Choice{PriorityClass: "idle"}}, wantCount: 4,
			members: listed{Pending: []*corev1.Pod{never(pod("a", "low", 5))}},
			want:    func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.PriorityClassName == "low" }, wantEvent: "which may preempt",
		},
		"the class of the namespace, above that of the pods": {
			group: grouping.Group{MinCount: 4, Choice: grouping.Choice{PriorityClass: "high", ClassOfNamespace: true}}, members: pending, wantCount: 4,
			want: func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.PriorityClassName == "high" },
		},
		"a class that does not exist": {
			group: grouping.Group{MinCount: 4, Choice: grouping.Choice{PriorityClass: "later"}}, members: pending, wantEvent: `"later"`,
		},
		"no pods yet":             {group: grouping.Group{MinCount: 4}},
		"the object has gone":     {group: grouping.Group{MinCount: 4, Ended: true}, members: pending},
		"fewer are needed":        {group: grouping.Group{MinCount: 2}, members: pending, before: written(nil), wantCount: 2},
		"more are needed":         {group: grouping.Group{MinCount: 6}, members: pending, before: written(nil), wantCount: 6},
		"more, while some run":    {group: grouping.Group{MinCount: 6}, before: written(func(pg *v1alpha1.PodGroup) { pg.Status.Scheduled = 1 }), wantCount: 4},
		"suspended, with pods":    {group: grouping.Group{MinCount: 2, Suspended: true}, members: pending, before: written(nil), wantCount: 4},
		"suspended, without":      {group: grouping.Group{MinCount: 4, Suspended: true}, before: written(nil)},
		"a replica too many":      {group: grouping.Group{MinCount: 4, Surplus: true}, before: written(nil)},
		"a run between two waves": {group: grouping.Group{MinCount: 4}, before: written(nil), wantCount: 4},
		"a preemption to finish": {
			group:  grouping.Group{MinCount: 4, Suspended: true},
			before: written(func(pg *v1alpha1.PodGroup) { pg.Status.Disruption = &v1alpha1.PodGroupDisruption{} }), wantCount: 4,
		},
		"another's": {
			group: grouping.Group{MinCount: 2}, members: pending, wantCount: 4, wantEvent: "it is not owned by Job train",
			before: written(func(pg *v1alpha1.PodGroup) { pg.OwnerReferences = nil }),
		},
		"of pods alone": {
			group: grouping.Group{MinCount: 2, Ownerless: true}, members: pending, wantCount: 2,
			want: func(pg *v1alpha1.PodGroup) bool { return len(pg.OwnerReferences) == 0 && isOwnerless(pg) },
		},
		"of pods alone, which have gone":             {group: grouping.Group{MinCount: 4, Ownerless: true}, before: written(ownerless)},
		"of pods alone, which have finished":         {group: grouping.Group{MinCount: 4, Ownerless: true}, before: written(ownerless), members: listed{Succeeded: pending.Pending}, wantCount: 4},
		"of pods alone, which went unseen":           {unknown: true, before: written(ownerless)},
		"of pods alone, where it is an object's":     {group: grouping.Group{MinCount: 2, Ownerless: true}, members: pending, before: written(nil), wantCount: 4, wantEvent: "it is not owned by"},
		"of an object that is not known":             {unknown: true, before: written(nil), wantCount: 4},
		"of pods alone, while a preemption is going": {unknown: true, before: written(func(pg *v1alpha1.PodGroup) { ownerless(pg); pg.Status.Disruption = &v1alpha1.PodGroupDisruption{} }), wantCount: 4},
		"a note": {group: grouping.Group{MinCount: 4, Note: "Job train has changed"}, members: pending, before: written(nil), wantCount: 4, wantEvent: "Job train has changed"},
		"another queue": {
			group: grouping.Group{MinCount: 4, Choice: grouping.Choice{Queue: "new"}}, members: pending, wantCount: 4, wantEvent: `"new", and the PodGroup was made with "old"`,
			before: written(func(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("old") }),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			builder := fakeclient.NewClientBuilder().WithScheme(scheme)
			if tt.before != nil {
				builder = builder.WithObjects(tt.before)
			}
			c, recorder := builder.Build(), events.NewFakeRecorder(10)
			tt.group.Owner = owner
			r := NewDerive(c, &derivedGroup{group: tt.group, unknown: tt.unknown}, tt.members, func(pod *corev1.Pod) string { return pod.Labels["queue"] }, classesOf(t, map[string]int32{"high": 10, "low": 5, "idle": 1}), recorder)
			key := types.NamespacedName{Namespace: "ns", Name: "g"}
			for range 2 {
				// What has been said once is not said again.
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
			}
			var got v1alpha1.PodGroup
			err := c.Get(t.Context(), key, &got)
			switch {
			case tt.wantCount == 0 && !apierrors.IsNotFound(err):
				t.Errorf("the group is %+v, error %v, want none", got.Spec, err)
			case tt.wantCount > 0 && (err != nil || got.Spec.SchedulingPolicy.Gang.MinCount != tt.wantCount):
				t.Errorf("the group is %+v, error %v, want one of %d", got.Spec, err, tt.wantCount)
			case tt.want != nil && !tt.want(&got):
				t.Errorf("the group is %+v, %+v", got.ObjectMeta, got.Spec)
			}
			close(recorder.Events)
			var said []string
			for e := range recorder.Events {
				said = append(said, e)
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, tt.wantEvent) || (tt.wantEvent != "") != (len(said) == 1) {
				t.Errorf("it says %q, want %q", said, tt.wantEvent)
			}
		})
	}
}

// TestDeriveRefused: one of the pods hears, once, why their group cannot be written.
func TestDeriveRefused(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	refuse := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return errors.New("the queue is not yours")
	}}
	c, recorder := fakeclient.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(refuse).Build(), events.NewFakeRecorder(10)
	d := &derivedGroup{group: grouping.Group{MinCount: 1, Owner: metav1.OwnerReference{Kind: "Job", Name: "train"}}}
	r := NewDerive(c, d, listed{Pending: []*corev1.Pod{{}}}, func(pod *corev1.Pod) string { return pod.Labels["queue"] }, classesOf(t, map[string]int32{"high": 10, "low": 5, "idle": 1}), recorder)
	for range 2 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "g"}}); err == nil {
			t.Error("there is no error to be tried again for")
		}
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want one", len(recorder.Events))
	}
	if e := <-recorder.Events; !strings.Contains(e, "Job train") || !strings.Contains(e, "the queue is not yours") {
		t.Errorf("it says %q", e)
	}
}
