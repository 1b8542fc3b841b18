package controller

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// unqueued removes the labels of a pod, so that it names no queue.
func unqueued(pod *corev1.Pod) *corev1.Pod {
	pod.Labels = nil
	return pod
}

// TestDerivedSources checks the annotations about the sources of a PodGroup's class and queue.
// Values that come from the pods have no such annotation.
func TestDerivedSources(t *testing.T) {
	t.Parallel()
	const class, queue = v1alpha1.AnnotationClassOf, v1alpha1.AnnotationQueueOf
	low := classed("a", "low", 5)
	cases := map[string]struct {
		choice grouping.Choice
		pod    *corev1.Pod
		want   map[string]string
	}{
		"from the pods":                     {pod: low},
		"a class of the namespace":          {choice: grouping.Choice{PriorityClass: "high", ClassOfNamespace: true}, pod: low, want: map[string]string{class: "namespace"}},
		"a class of the object":             {choice: grouping.Choice{PriorityClass: "idle"}, pod: low, want: map[string]string{class: "object"}},
		"a class that is not given":         {choice: grouping.Choice{PriorityClass: "high"}, pod: low},
		"a queue of the object":             {choice: grouping.Choice{Queue: "mine", DefaultQueue: "default"}, pod: low, want: map[string]string{queue: "object"}},
		"a queue of the namespace":          {choice: grouping.Choice{DefaultQueue: "default"}, pod: unqueued(classed("a", "low", 5)), want: map[string]string{queue: "namespace"}},
		"a queue of the pods":               {choice: grouping.Choice{DefaultQueue: "default"}, pod: low},
		"pods of no class, and of no queue": {pod: unqueued(classed("a", "", 0))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, err := NewDerivedPodGroup(derivationWith(grouping.Group{Owner: theJob, MinCount: 1, Choice: c.choice}, &gang.Members{Pending: []*corev1.Pod{c.pod}}),
				func(pod *corev1.Pod) string { return pod.Labels["queue"] }, classesOf(t, map[string]int32{"high": 10, "low": 5, "idle": 1}))
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(pg.Annotations, c.want) {
				t.Errorf("it has %v, want %v", pg.Annotations, c.want)
			}
		})
	}
}

// TestDerivedMode checks that the disruption mode comes from the annotation, or else from the
// default for the kind of the object.
func TestDerivedMode(t *testing.T) {
	t.Parallel()
	const whole, single = string(v1alpha1.DisruptionModePodGroup), string(v1alpha1.DisruptionModePod)
	for name, c := range map[string]struct {
		choice grouping.Choice
		want   string
	}{
		"nothing is said":                     {},
		"the annotation":                      {choice: grouping.Choice{DisruptionMode: whole}, want: whole},
		"a kind that is made again whole":     {choice: grouping.Choice{DefaultMode: whole}, want: whole},
		"such a kind, and the annotation Pod": {choice: grouping.Choice{DefaultMode: whole, DisruptionMode: single}, want: single},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg, err := NewDerivedPodGroup(derivationWith(grouping.Group{Owner: theJob, MinCount: 1, Choice: c.choice}, &gang.Members{Pending: []*corev1.Pod{classed("a", "low", 5)}}),
				func(*corev1.Pod) string { return "" }, classesOf(t, map[string]int32{"low": 5}))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(ptr.Deref(pg.Spec.DisruptionMode, "")); got != c.want {
				t.Errorf("the mode is %q, want %q", got, c.want)
			}
		})
	}
}

// TestDeriveDropped checks that a running group reports settings that its object no longer
// requests. It must not report settings that came from the pods, because the object never requested
// them.
func TestDeriveDropped(t *testing.T) {
	t.Parallel()
	run := listed{Assigned: []*corev1.Pod{classed("a", "low", 5), classed("b", "low", 5)}}
	made := func(class, queue string, marks map[string]string) *v1alpha1.PodGroup {
		return written(func(pg *v1alpha1.PodGroup) {
			pg.Spec.PriorityClassName, pg.Spec.QueueName, pg.Annotations = &class, &queue, marks
		})
	}
	of := func(annotation, from string) map[string]string { return map[string]string{annotation: from} }
	four := grouping.Group{MinCount: 4}
	tests := map[string]deriveCase{
		"the class of the namespace": {
			group: four, members: run, before: made("high", "of-pods", of(v1alpha1.AnnotationClassOf, v1alpha1.FromNamespace)), wantCount: 4,
			wantEvent: `for Job train, the PodGroup would be made with priorityClassName "low" now, and was made with "high", which cannot be changed`,
		},
		"the class of the object": {
			group: four, members: run, before: made("idle", "of-pods", of(v1alpha1.AnnotationClassOf, v1alpha1.FromObject)), wantCount: 4,
			wantEvent: `priorityClassName "low" now, and was made with "idle"`,
		},
		"a class that the pods have by now": {
			group: four, members: run, before: made("low", "of-pods", of(v1alpha1.AnnotationClassOf, v1alpha1.FromNamespace)), wantCount: 4,
		},
		"a class that is asked for still": {
			group:   grouping.Group{MinCount: 4, Choice: grouping.Choice{PriorityClass: "high", ClassOfNamespace: true}},
			members: run, before: made("high", "of-pods", of(v1alpha1.AnnotationClassOf, v1alpha1.FromNamespace)), wantCount: 4,
		},
		"pods of another class": {group: four, members: run, before: made("high", "of-pods", nil), wantCount: 4},
		"pods of another queue": {group: four, members: run, before: made("low", "old", nil), wantCount: 4},
		"the queue of the object": {
			group: four, members: run, before: made("low", "old", of(v1alpha1.AnnotationQueueOf, v1alpha1.FromObject)), wantCount: 4,
			wantEvent: `queueName "of-pods" now, and was made with "old"`,
		},
		"another queue for the namespace": {
			group:   grouping.Group{MinCount: 4, Choice: grouping.Choice{DefaultQueue: "new"}},
			members: listed{Assigned: []*corev1.Pod{unqueued(classed("a", "low", 5))}}, wantCount: 4,
			before: made("low", "old", of(v1alpha1.AnnotationQueueOf, v1alpha1.FromNamespace)), wantEvent: `queueName "new" now, and was made with "old"`,
		},
		"the disruption mode": {
			group: four, members: run, wantCount: 4, wantEvent: `disruptionMode "Pod" now, and was made with "PodGroup"`,
			before: written(func(pg *v1alpha1.PodGroup) { pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup) }),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.check(t)
		})
	}
}

// TestDeriveWithoutPods checks that the condition of a PodGroup without living pods does not
// change, because there is nothing to compare with.
func TestDeriveWithoutPods(t *testing.T) {
	t.Parallel()
	high := grouping.Choice{PriorityClass: "high"}
	cases := map[string]struct {
		group grouping.Group
		said  string
		want  string
	}{
		"it has the class of its pods":       {group: grouping.Group{Choice: high}, said: "the PodGroup has theirs", want: "the PodGroup has theirs"},
		"it has said nothing":                {group: grouping.Group{Choice: high}},
		"its object moves pods all the same": {group: grouping.Group{Choice: high, Note: "Job train has changed"}, said: "before", want: "Job train has changed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := written(func(pg *v1alpha1.PodGroup) {
				pg.Spec.PriorityClassName = ptr.To("low")
				if c.said != "" {
					pg.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFollowsObject, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonObjectNotFollowed, Message: c.said}}
				}
			})
			api := newClient(t, pg)
			c.group.MinCount, c.group.Owner = 4, theJob
			r := newDerive(t, api, &derivedGroup{group: c.group}, listed{Succeeded: named("s", 1, succeeded)}, events.NewFakeRecorder(10), func(*corev1.Pod, corev1.PodCondition) {})
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey}); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), groupKey, pg); err != nil {
				t.Fatal(err)
			}
			got := ""
			if said := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionFollowsObject); said != nil {
				got = said.Message
			}
			if got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

// TestDeriveMarksEarlier checks that a PodGroup of an earlier version gets the annotation about the
// source of its class.
func TestDeriveMarksEarlier(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		choice grouping.Choice
		want   string
	}{
		"the class of the namespace":     {choice: grouping.Choice{PriorityClass: "high", ClassOfNamespace: true}, want: v1alpha1.FromNamespace},
		"the class of the object":        {choice: grouping.Choice{PriorityClass: "high"}},
		"another one for the namespace":  {choice: grouping.Choice{PriorityClass: "low", ClassOfNamespace: true}},
		"none is asked for by any means": {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := written(func(pg *v1alpha1.PodGroup) { pg.Spec.PriorityClassName = ptr.To("high") })
			api := newClient(t, pg)
			group := grouping.Group{MinCount: 4, Owner: theJob, Choice: c.choice}
			r := newDerive(t, api, &derivedGroup{group: group}, listed{Assigned: []*corev1.Pod{classed("a", "low", 5)}}, events.NewFakeRecorder(10), func(*corev1.Pod, corev1.PodCondition) {})
			for range 3 {
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey}); err != nil {
					t.Fatal(err)
				}
			}
			if err := api.Get(t.Context(), groupKey, pg); err != nil {
				t.Fatal(err)
			}
			if got := pg.Annotations[v1alpha1.AnnotationClassOf]; got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

// derivationWith returns a group that is in no tree, with its members.
func derivationWith(g grouping.Group, members *gang.Members) *Derivation {
	return &Derivation{Group: g, Key: groupKey, Members: members, Tree: members}
}
