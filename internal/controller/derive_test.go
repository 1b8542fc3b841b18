package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	group grouping.Group
}

func (d *derivedGroup) Group(types.NamespacedName) (grouping.Group, bool) { return d.group, true }
func (d *derivedGroup) Recall(types.NamespacedName, types.UID)            {}
func (d *derivedGroup) Hold(*corev1.Pod) gang.Verdict                     { return gang.Verdict{} }

// listed are the members of any group.
type listed gang.Members

func (l listed) Members(types.NamespacedName) gang.Members { return gang.Members(l) }

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
	pending := listed{Pending: []*corev1.Pod{pod("a", "high", 10), pod("b", "low", 5)}}
	tests := map[string]struct {
		group   grouping.Group
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
			group:   grouping.Group{MinCount: 4, Choice: grouping.Choice{Queue: "mine", DefaultQueue: "default", PriorityClass: "high", DisruptionMode: "PodGroup"}},
			members: pending, wantCount: 4, want: func(pg *v1alpha1.PodGroup) bool {
				return *pg.Spec.QueueName == "mine" && *pg.Spec.PriorityClassName == "high" && *pg.Spec.DisruptionMode == v1alpha1.DisruptionModePodGroup
			},
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
			r := NewDerive(c, &derivedGroup{group: tt.group}, tt.members, func(*corev1.Pod) string { return "queue" }, recorder)
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
	r := NewDerive(c, d, listed{Pending: []*corev1.Pod{{}}}, func(*corev1.Pod) string { return "queue" }, recorder)
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
