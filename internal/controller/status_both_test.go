package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// nativeBench returns a bench with a native PodGroup (scheduling.k8s.io) that needs two members.
func nativeBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, schedulingv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: groupKey.Namespace, Name: groupKey.Name, UID: "uid"}}
	pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	pg.Spec.Priority = ptr.To[int32](5)
	b := newBench(t)
	b.client = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(pg).
		WithStatusSubresource(&schedulingv1beta1.PodGroup{}).Build()
	b.status.client = native.NewClient(b.client, schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"))
	return b
}

func (b *bench) nativeConditions() []metav1.Condition {
	b.t.Helper()
	var pg schedulingv1beta1.PodGroup
	if err := b.client.Get(b.t.Context(), groupKey, &pg); err != nil {
		b.t.Fatal(err)
	}
	return pg.Status.Conditions
}

func elsewhere(pod *corev1.Pod) { pod.Spec.SchedulerName = "somebody-else" }

// TestNativeGroup checks that the conditions of a native PodGroup show its state and the start of
// its run.
func TestNativeGroup(t *testing.T) {
	t.Parallel()
	b := nativeBench(t)
	b.pods = named("p", 1)
	b.reconcile()
	if c := meta.FindStatusCondition(b.nativeConditions(), v1alpha1.ConditionPodGroupScheduled); c == nil || c.Reason != v1alpha1.ReasonNotEnoughMembers {
		t.Fatalf("With one member it has %+v", b.nativeConditions())
	}
	b.pods = named("r", 2, running)
	b.reconcile()
	all := b.nativeConditions()
	if c := meta.FindStatusCondition(all, native.ConditionStarted); c == nil || c.LastTransitionTime.Unix() != 1000 || !meta.IsStatusConditionTrue(all, v1alpha1.ConditionPodGroupScheduled) {
		t.Fatalf("With two that run it has %+v", all)
	}
	b.step(time.Hour)
	b.pods = slices.Concat(named("r", 1, running), named("t", 1, running, terminating))
	b.reconcile()
	b.step(engine.ShortTime)
	b.reconcile()
	if c := meta.FindStatusCondition(b.nativeConditions(), native.ConditionStarted); c != nil {
		t.Errorf("After it lost a member it has %+v", b.nativeConditions())
	}
	b.pods = named("r", 2, running)
	b.reconcile()
	if c := meta.FindStatusCondition(b.nativeConditions(), native.ConditionStarted); c == nil || c.LastTransitionTime.Unix() != 1000+3601 {
		t.Errorf("When it is whole again it has %+v", b.nativeConditions())
	}
	// Remove the pods. Now only the start time in the status shows that Reprieve schedules the
	// group.
	b.pods = nil
	b.reconcile()
	b.step(engine.ShortTime)
	b.reconcile()
	if c := meta.FindStatusCondition(b.nativeConditions(), native.ConditionStarted); c != nil {
		t.Errorf("With nothing running it has %+v", c)
	}
}

func TestNativeGroupsOfOtherSchedulers(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pods []*corev1.Pod
		want bool
	}{
		"no members":                     {},
		"members of another one":         {pods: slices.Concat(named("p", 1, elsewhere), named("r", 2, running, elsewhere))},
		"members of both":                {pods: slices.Concat(named("p", 1, elsewhere), named("q", 1)), want: true},
		"one of ours that runs":          {pods: named("r", 1, running), want: true},
		"one of ours that names another": {pods: named("t", 1, torn), want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := nativeBench(t)
			b.pods = c.pods
			b.reconcile()
			if got := b.nativeConditions(); (len(got) > 0) != c.want {
				t.Errorf("It has %+v", got)
			}
			if told := b.told(); len(told) > 0 && !c.want {
				t.Errorf("Its members are told %q", told)
			}
		})
	}
}

// TestNativeGroupWithoutMembers checks the status of a native PodGroup that never ran, after its
// pods have finished or were deleted. The status is updated only if the last pods of the group
// named Reprieve as their scheduler.
func TestNativeGroupWithoutMembers(t *testing.T) {
	t.Parallel()
	ours, others := named("p", 2, assigned), named("p", 2, assigned, elsewhere)
	disrupted := []metav1.Condition{{Type: native.ConditionLastDisruption, Status: metav1.ConditionTrue, Message: "{}"}}
	cases := map[string]struct {
		// had are the sets of pods that the group has had, in order.
		had [][]*corev1.Pod
		// before are conditions that an earlier process has written.
		before []metav1.Condition
		want   string
	}{
		"they have gone":                      {had: [][]*corev1.Pod{ours, nil}, want: v1alpha1.ReasonNotEnoughMembers},
		"they have failed":                    {had: [][]*corev1.Pod{named("p", 2, failed)}, want: v1alpha1.ReasonNotEnoughMembers},
		"others came, and have gone":          {had: [][]*corev1.Pod{ours, others, nil}, want: v1alpha1.ReasonScheduled},
		"others had it":                       {had: [][]*corev1.Pod{others, nil}},
		"it was preempted":                    {had: [][]*corev1.Pod{nil}, before: disrupted, want: v1alpha1.ReasonNotEnoughMembers},
		"it was preempted, and others had it": {had: [][]*corev1.Pod{others, nil}, before: disrupted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := nativeBench(t)
			var pg schedulingv1beta1.PodGroup
			if err := b.client.Get(t.Context(), groupKey, &pg); err != nil {
				t.Fatal(err)
			}
			pg.Status.Conditions = c.before
			if err := b.client.Status().Update(t.Context(), &pg); err != nil {
				t.Fatal(err)
			}
			for _, b.pods = range c.had {
				b.reconcile()
				b.step(2 * emptyTime)
				b.reconcile()
			}
			got := ""
			if said := meta.FindStatusCondition(b.nativeConditions(), v1alpha1.ConditionPodGroupScheduled); said != nil {
				got = said.Reason
			}
			if got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
			if told := b.told(); len(told) > 0 {
				t.Errorf("told %q", told)
			}
		})
	}
}

func TestNameOfTwoGroups(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	b.pods = named("p", 2)
	b.known.Set(&gang.Group{Key: groupKey, Ambiguous: true})
	b.reconcile()
	got := meta.FindStatusCondition(b.group().Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
	if got == nil || got.Reason != v1alpha1.ReasonAmbiguousName {
		t.Errorf("The condition is %+v", got)
	}
	// The condition shows the fault even if all members run.
	b.pods = named("p", 2, running)
	b.reconcile()
	got = meta.FindStatusCondition(b.group().Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
	if got == nil || got.Reason != v1alpha1.ReasonScheduled || !strings.Contains(got.Message, "delete one of the two") {
		t.Errorf("Once they run, the condition is %+v", got)
	}
}

// torn makes a pod name two groups.
func torn(pod *corev1.Pod) {
	pod.Labels = map[string]string{v1alpha1.LabelPodGroup: "other"}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
}

// TestPodsOfTwoGroupsAreTold checks that each pod that names two groups gets one event. The pod
// must get the event whether these groups exist or not.
func TestPodsOfTwoGroupsAreTold(t *testing.T) {
	t.Parallel()
	for name, objects := range map[string][]client.Object{"a group": {gangGroup(1)}, "no group": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, objects...)
			b.pods = named("torn", 2, torn)
			for range 3 {
				b.reconcile()
				b.step(time.Hour)
			}
			told := b.told()
			if len(told) != 2 || !strings.Contains(told[0], gang.ReasonTwoPodGroups) || !strings.Contains(told[0], `"other"`) {
				t.Errorf("Told %q", told)
			}
			b.pods = append(b.pods, named("late", 1, torn)...)
			b.reconcile()
			if told := b.told(); len(told) != 1 {
				t.Errorf("Told %q", told)
			}
		})
	}
}

// TestMembersOfNativeGroup checks the condition MembersScheduled of a native PodGroup. It must be
// correct even if the process restarts while the last member terminates.
func TestMembersOfNativeGroup(t *testing.T) {
	t.Parallel()
	b := nativeBench(t)
	steps := []struct {
		name string
		pods []*corev1.Pod
		// restart is true if a new process, without memory, continues before this step.
		restart bool
		want    metav1.ConditionStatus
	}{
		{"no member has a node", named("p", 2), false, ""},
		{"one member of two has a node", slices.Concat(named("p", 1), named("a", 1, assigned)), false, metav1.ConditionTrue},
		{"both run", named("a", 2, running), false, metav1.ConditionTrue},
		{"both terminate", named("a", 2, running, terminating), false, metav1.ConditionFalse},
		{"one of two runs again", named("r", 1, running), false, metav1.ConditionTrue},
		{"it goes while no scheduler runs", nil, true, metav1.ConditionFalse},
		{"one member runs", named("s", 1, running), false, metav1.ConditionTrue},
		{"another scheduler has all members", named("t", 2, running, elsewhere), false, metav1.ConditionFalse},
	}
	for _, step := range steps {
		if step.restart {
			// The run has ended, so only the condition shows that Reprieve has scheduled the group.
			b.step(engine.ShortTime)
			b.reconcile()
			restarted := *b.status
			restarted.told = make(map[types.NamespacedName]*told)
			b.status = &restarted
		}
		b.pods = step.pods
		b.reconcile()
		got := meta.FindStatusCondition(b.nativeConditions(), native.ConditionMembersScheduled)
		if (got == nil) != (step.want == "") || got != nil && got.Status != step.want {
			t.Errorf("%s: the condition is %+v, want %q", step.name, got, step.want)
		}
	}
}
