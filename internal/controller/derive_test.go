package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// derivedGroup is a Derived that has one group; none if unknown is true.
type derivedGroup struct {
	gang.Named
	group   grouping.Group
	unknown bool
}

func (d *derivedGroup) Group(types.NamespacedName) (grouping.Group, bool) {
	return d.group, !d.unknown
}
func (d *derivedGroup) IsBounded(types.NamespacedName) bool    { return d.group.IsBounded() }
func (d *derivedGroup) Recall(types.NamespacedName, types.UID) {}
func (d *derivedGroup) SetOutside(types.NamespacedName, bool)  {}
func (d *derivedGroup) Hold(*corev1.Pod) gang.Verdict          { return gang.Verdict{} }

// listed is a lister that returns the same members for every group.
type listed gang.Members

func (l listed) Members(types.NamespacedName) gang.Members { return gang.Members(l) }

// classesOf returns a lister of PriorityClasses with these values.
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

var theJob = metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job"}

// classed returns a pod that names a PriorityClass and the queue of-pods.
func classed(name, class string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"queue": "of-pods"}},
		Spec:       corev1.PodSpec{PriorityClassName: class, Priority: &priority},
	}
}

func peaceful(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	return pod
}

// written returns an existing PodGroup of theJob that needs 4 members.
func written(change func(*v1alpha1.PodGroup)) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "g", OwnerReferences: []metav1.OwnerReference{theJob}}}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 4}}
	if change != nil {
		change(pg)
	}
	return pg
}

func ownerless(pg *v1alpha1.PodGroup) {
	orphan(pg)
	pg.Annotations = map[string]string{annotationMadeFrom: madeFromPods}
}

func orphan(pg *v1alpha1.PodGroup) {
	pg.OwnerReferences, pg.Labels = nil, map[string]string{labelManagedBy: managedBy}
}

// deriveCase is a derived group with its members, and its PodGroup before the test.
type deriveCase struct {
	group   grouping.Group
	unknown bool
	members listed
	before  *v1alpha1.PodGroup
	// placing changes the scheduler's records about the group; nil for no change.
	placing func(*engine.Gangs, types.NamespacedName)
	// wantCount is the minCount of the PodGroup after the test; 0 if there must be no PodGroup.
	wantCount int32
	want      func(*v1alpha1.PodGroup) bool
	// wantEvent must be part of the only event, and of the condition. "" means that there is no
	// event.
	wantEvent string
}

func TestDerive(t *testing.T) {
	t.Parallel()
	pending := listed{Pending: []*corev1.Pod{classed("a", "high", 10), classed("b", "low", 5)}}
	tests := map[string]deriveCase{
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
			members: listed{Pending: []*corev1.Pod{peaceful(classed("a", "low", 5))}},
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
		"finished, with pods":     {group: grouping.Group{MinCount: 4, Finished: true}, members: listed{Succeeded: pending.Pending}, before: written(nil), wantCount: 4},
		"finished, without":       {group: grouping.Group{MinCount: 4, Finished: true}, before: written(nil)},
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
			group: grouping.Group{MinCount: 4, Choice: grouping.Choice{Queue: "new"}}, members: listed{Assigned: pending.Pending}, wantCount: 4, wantEvent: `"new", and the PodGroup was made with "old"`,
			before: written(func(pg *v1alpha1.PodGroup) { pg.Spec.QueueName = ptr.To("old") }),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.check(t)
		})
	}
}

// check reconciles the group twice. The second call must not repeat a report. If the first call
// deleted the PodGroup, the second must create it again.
func (tt *deriveCase) check(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fakeclient.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.PodGroup{})
	if tt.before != nil {
		builder = builder.WithObjects(tt.before)
	}
	c, recorder := builder.Build(), events.NewFakeRecorder(10)
	tt.group.Owner = theJob
	r := newDerive(t, c, &derivedGroup{group: tt.group, unknown: tt.unknown}, tt.members, recorder, func(*corev1.Pod, corev1.PodCondition) {})
	key := types.NamespacedName{Namespace: "ns", Name: "g"}
	if tt.placing != nil {
		tt.placing(r.gangs, key)
	}
	for range 2 {
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
	c1 := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionFollowsObject)
	if says := c1 != nil && c1.Status == metav1.ConditionFalse && strings.Contains(c1.Message, tt.wantEvent); tt.wantCount > 0 && says != (tt.wantEvent != "") {
		t.Errorf("its condition is %+v, want %q", c1, tt.wantEvent)
	}
}

// newDerive returns a Derive for a cluster with the classes high, low and idle. A pod names its
// queue in the label queue.
func newDerive(t *testing.T, c client.Client, derived Derived, members Members, recorder events.EventRecorder, say func(*corev1.Pod, corev1.PodCondition)) *Derive {
	t.Helper()
	return NewDerive(c, derived, members, func(pod *corev1.Pod) string { return pod.Labels["queue"] },
		classesOf(t, map[string]int32{"high": 10, "low": 5, "idle": 1}), gangsOf(groupKey), recorder, say, func(string, int) {},
		clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)))
}

// TestDeriveAnew checks that a PodGroup with outdated settings is replaced only while its members
// cannot lose anything.
func TestDeriveAnew(t *testing.T) {
	t.Parallel()
	of := func(class string, priority int32, policy corev1.PreemptionPolicy) func(*v1alpha1.PodGroup) {
		return func(pg *v1alpha1.PodGroup) {
			pg.Spec.PriorityClassName, pg.Spec.Priority, pg.Spec.PreemptionPolicy = &class, &priority, &policy
			pg.Spec.QueueName = ptr.To("of-pods")
		}
	}
	high := of("high", 10, corev1.PreemptLowerPriority)
	both := []*corev1.Pod{classed("a", "high", 10), classed("b", "low", 5)}
	hasClass := func(class string) func(*v1alpha1.PodGroup) bool {
		return func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.PriorityClassName == class }
	}
	two, four := grouping.Group{MinCount: 2}, grouping.Group{MinCount: 4}
	newQueue := grouping.Group{MinCount: 2, Choice: grouping.Choice{Queue: "new"}}
	nominated := classed("b", "high", 10)
	nominated.Status.NominatedNodeName = "node-0"
	tests := map[string]deriveCase{
		"a lower pod has come": {
			group: four, members: listed{Pending: both}, before: written(high), wantCount: 4,
			want: func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.PriorityClassName == "low" && *pg.Spec.Priority == 5 },
		},
		"a lower pod has come, and one runs": {
			group: two, members: listed{Pending: both[1:], Assigned: both[:1]}, before: written(high), wantCount: 2, want: hasClass("high"),
		},
		"a lower pod has come, and one has succeeded": {
			group: two, members: listed{Pending: both[1:], Succeeded: both[:1]}, before: written(high), wantCount: 2, want: hasClass("high"),
		},
		"a pod that may not preempt has come": {
			group: two, members: listed{Pending: []*corev1.Pod{classed("a", "high", 10), peaceful(classed("b", "high", 10))}}, before: written(high), wantCount: 2,
			want: func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.PreemptionPolicy == corev1.PreemptNever },
		},
		"a lower pod, in a namespace with a class": {
			group:   grouping.Group{MinCount: 2, Choice: grouping.Choice{PriorityClass: "high", ClassOfNamespace: true}},
			members: listed{Pending: both}, before: written(high), wantCount: 2, want: hasClass("high"),
		},
		"all pods are higher by now": {
			group: two, members: listed{Pending: []*corev1.Pod{classed("a", "high", 10), classed("b", "high", 10)}}, before: written(of("low", 5, corev1.PreemptLowerPriority)),
			wantCount: 2, want: hasClass("high"),
		},
		"those pods are higher that are there": {
			group: four, members: listed{Pending: both[:1]}, before: written(of("low", 5, corev1.PreemptLowerPriority)), wantCount: 4, want: hasClass("low"),
		},
		"another queue is asked for": {
			group: newQueue, members: listed{Pending: []*corev1.Pod{classed("a", "high", 10), classed("b", "high", 10)}}, before: written(high), wantCount: 2,
			want: func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.QueueName == "new" },
		},
		"another queue, and room is promised": {
			group: newQueue, members: listed{Pending: []*corev1.Pod{classed("a", "high", 10), nominated}}, before: written(high), wantCount: 2,
			want: func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.QueueName == "of-pods" }, wantEvent: `asks for reprieve.dev/queue: "new"`,
		},
		"another queue, and room is being made": {
			group: newQueue, members: listed{Pending: []*corev1.Pod{classed("a", "high", 10), classed("b", "high", 10)}}, before: written(high), wantCount: 2,
			placing: func(r *engine.Gangs, key types.NamespacedName) {
				r.SetVerdict(gang.KeyOf(key), gang.Verdict{Reason: v1alpha1.ReasonPreempting})
			},
			want: func(pg *v1alpha1.PodGroup) bool { return *pg.Spec.QueueName == "of-pods" }, wantEvent: `asks for reprieve.dev/queue: "new"`,
		},
		"a lower pod has come, and the others are planned": {
			group: two, members: listed{Pending: both}, before: written(high), wantCount: 2, want: hasClass("high"),
			placing: func(r *engine.Gangs, key types.NamespacedName) {
				r.SetPlan(gang.KeyOf(key), []engine.Assignment{{Member: "a", Node: "node-0"}})
			},
		},
		"a lower pod has come, and the others are on their way": {
			group: two, members: listed{Pending: both}, before: written(high), wantCount: 2, want: hasClass("high"),
			placing: func(r *engine.Gangs, key types.NamespacedName) { r.Reserve(gang.KeyOf(key), "a", "node-0") },
		},
		"its object was deleted, and left it behind": {unknown: true, before: written(orphan)},
		"left behind, with pods that run":            {group: grouping.Group{MinCount: 4, Ended: true}, members: listed{Assigned: both}, before: written(orphan), wantCount: 4},
		"left behind, with pods":                     {unknown: true, members: listed{Assigned: both}, before: written(orphan), wantCount: 4},
		"it follows again": {
			group: two, members: listed{Assigned: both}, wantCount: 2,
			before: written(func(pg *v1alpha1.PodGroup) {
				pg.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFollowsObject, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonObjectNotFollowed, Message: "before"}}
			}),
			want: func(pg *v1alpha1.PodGroup) bool {
				return meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionFollowsObject)
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.check(t)
		})
	}
}

// TestDeriveAnewOnce checks that a PodGroup is replaced only once if the API server changes its
// settings at each write.
func TestDeriveAnewOnce(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	created := 0
	mutate := interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		created++
		if pg, ok := obj.(*v1alpha1.PodGroup); ok {
			pg.Spec.QueueName = ptr.To("elsewhere")
		}
		return c.Create(ctx, obj, opts...)
	}}
	c := fakeclient.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.PodGroup{}).WithInterceptorFuncs(mutate).Build()
	d := &derivedGroup{group: grouping.Group{MinCount: 1, Owner: theJob, Choice: grouping.Choice{Queue: "mine"}}}
	r := newDerive(t, c, d, listed{Pending: []*corev1.Pod{classed("a", "low", 5)}}, events.NewFakeRecorder(10), func(*corev1.Pod, corev1.PodCondition) {})
	for range 10 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "g"}}); err != nil {
			t.Fatal(err)
		}
	}
	if created > 2 {
		t.Errorf("it has been made %d times", created)
	}
}

// TestDeriveAnewAgain checks that a PodGroup is replaced after each change of its Job, even if the
// change restores earlier settings. A deletion that fails is retried.
func TestDeriveAnewAgain(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	conflicts := 0
	conflict := interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		if conflicts++; conflicts%2 == 1 {
			return apierrors.NewConflict(v1alpha1.SchemeGroupVersion.WithResource("podgroups").GroupResource(), obj.GetName(), errors.New("it has changed"))
		}
		return c.Delete(ctx, obj, opts...)
	}}
	c := fakeclient.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.PodGroup{}).WithInterceptorFuncs(conflict).Build()
	d := &derivedGroup{group: grouping.Group{MinCount: 1, Owner: theJob}}
	r := newDerive(t, c, d, listed{Pending: []*corev1.Pod{classed("a", "low", 5)}}, events.NewFakeRecorder(10), func(*corev1.Pod, corev1.PodCondition) {})
	key := types.NamespacedName{Namespace: "ns", Name: "g"}
	for _, queue := range []string{"a", "b", "a", "b"} {
		d.group.Choice.Queue = queue
		for range 4 {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
		}
		var pg v1alpha1.PodGroup
		if err := c.Get(t.Context(), key, &pg); err != nil || ptr.Deref(pg.Spec.QueueName, "") != queue {
			t.Errorf("asked for queue %s, it is %v, %+v", queue, err, pg.Spec)
		}
	}
}

// TestPodsWithoutTheirGroupAreCounted checks the number of pods whose PodGroup cannot be written. A
// pod counts until its PodGroup exists or the pod is deleted.
func TestPodsWithoutTheirGroupAreCounted(t *testing.T) {
	t.Parallel()
	refused := true
	c := refusing(t, &refused, "no")
	members := &gang.Members{Pending: []*corev1.Pod{classed("a", "low", 5), classed("b", "low", 5)}}
	d := &derivedGroup{group: grouping.Group{MinCount: 1, Owner: theJob}}
	r := newDerive(t, c, d, pointed{members}, events.NewFakeRecorder(10), func(*corev1.Pod, corev1.PodCondition) {})
	shown := map[string]int{}
	r.figure = func(reason string, pods int) { shown[reason] = pods }
	look := func(when string, want int, names ...string) {
		t.Helper()
		for _, name := range names {
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}})
			if err != nil && !refused {
				t.Fatal(err)
			}
		}
		if got := shown[string(metrics.PodGroupNotMade)]; got != want {
			t.Errorf("%s, %d pods are shown, want %d", when, got, want)
		}
	}
	look("with two groups of two", 4, "g", "h", "g")
	members.Pending = members.Pending[:1]
	look("once a pod of g has gone", 3, "g")
	members.Pending = nil
	look("once h has no pods", 1, "h")
	members.Pending = []*corev1.Pod{classed("a", "low", 5)}
	refused = false
	look("once g is written", 0, "g")
	refused = true
	look("with another group", 1, "i")
	refused = false
	if err := c.Create(t.Context(), &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i"}}); err != nil {
		t.Fatal(err)
	}
	refused = true
	look("once others have made it", 0, "i")
}

// refusing returns a client that fails to create objects while refused is true.
func refusing(t *testing.T, refused *bool, why string) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fakeclient.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if *refused {
				return errors.New(why)
			}
			return c.Create(ctx, obj, opts...)
		},
	}).Build()
}

// pointed is a lister of members. The test may change them.
type pointed struct{ now *gang.Members }

func (p pointed) Members(types.NamespacedName) gang.Members { return *p.now }

// TestDeriveRefused checks that one pod of a group gets one event with the reason why the PodGroup
// cannot be written.
func TestDeriveRefused(t *testing.T) {
	t.Parallel()
	refused := true
	c, recorder := refusing(t, &refused, "the queue is not yours"), events.NewFakeRecorder(10)
	d := &derivedGroup{group: grouping.Group{MinCount: 1, Owner: metav1.OwnerReference{Kind: "Job", Name: "train"}}}
	var said []string
	pod := classed("a", "low", 5)
	r := newDerive(t, c, d, listed{Pending: []*corev1.Pod{pod}}, recorder, func(pod *corev1.Pod, c corev1.PodCondition) {
		said = append(said, c.Reason)
		// Store the condition in the pod, as the API server does.
		pod.Status.Conditions = []corev1.PodCondition{c}
	})
	key := types.NamespacedName{Namespace: "ns", Name: "g"}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err == nil {
			t.Error("there is no error to be tried again for")
		}
	}
	if !slices.Equal(said, []string{gang.ReasonPodGroupNotMade}) || r.gangs.Unresolved(gang.KeyOf(key)).Reason != gang.ReasonPodGroupNotMade {
		t.Errorf("the pod says %q, the group %+v", said, r.gangs.Unresolved(gang.KeyOf(key)))
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want one", len(recorder.Events))
	}
	if e := <-recorder.Events; !strings.Contains(e, "Job train") || !strings.Contains(e, "the queue is not yours") {
		t.Errorf("it says %q", e)
	}
	refused = false
	for range 3 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(said, []string{gang.ReasonPodGroupNotMade, v1alpha1.ReasonPending}) || r.gangs.Unresolved(gang.KeyOf(key)) != (gang.Verdict{}) {
		t.Errorf("once it is written, the pod has said %q, and the group says %+v", said, r.gangs.Unresolved(gang.KeyOf(key)))
	}
}
