package leaving

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

var group = types.NamespacedName{Namespace: "ns", Name: "g"}

// TestVictimThatLivesOn checks how long a victim counts as gone. It must count as gone until it is
// known to keep running, or until some time after its last eviction ended.
func TestVictimThatLivesOn(t *testing.T) {
	t.Parallel()
	v := inNamespace("ns", "v")
	victims, uids := map[types.UID]*corev1.Pod{v.UID: v}, sets.New(v.UID)
	start := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		// happens runs after an eviction of the pod has begun.
		happens func(l *Pods, taken Taken)
		// wantAfter is true if the pod counts as gone after happens.
		wantAfter bool
		// wantLater is true if the pod counts as gone after a later sweep.
		wantLater bool
		// wantStays is true if the sweep returns the pod, because it may keep running.
		wantStays bool
	}{
		"while it is taken": {func(*Pods, Taken) {}, true, true, false},
		"spared":            {func(l *Pods, taken Taken) { l.Spare(taken, nil) }, false, false, false},
		"begun":             {func(l *Pods, taken Taken) { l.Over(taken, uids, start) }, true, false, true},
		"begun, and gone": {func(l *Pods, taken Taken) {
			l.Over(taken, uids, start)
			l.Gone(v, start)
		}, true, false, false},
		"begun, and placed": {func(l *Pods, taken Taken) {
			l.Over(taken, uids, start)
			l.Placed(v.UID)
		}, false, false, false},
		"begun, and taken again": {func(l *Pods, taken Taken) {
			l.Over(taken, uids, start)
			l.Take(victims)
		}, true, true, false},
		"begun, and spared by another": {func(l *Pods, taken Taken) {
			l.Over(taken, uids, start)
			l.Spare(l.Take(victims), nil)
		}, true, false, true},
		"begun while taken by two": {func(l *Pods, taken Taken) {
			l.Take(victims)
			l.Over(taken, uids, start)
		}, true, true, false},
		"placed, taken again and spared, and the first one ends meanwhile": {func(l *Pods, taken Taken) {
			l.Placed(v.UID)
			second := l.Take(victims)
			l.Over(taken, uids, start)
			l.Spare(second, nil)
		}, false, false, false},
		"placed and taken again, and the first one ends": {func(l *Pods, taken Taken) {
			l.Placed(v.UID)
			l.Take(victims)
			l.Over(taken, uids, start)
		}, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l Pods
			c.happens(&l, l.Take(victims))
			if got := l.Has(v); got != c.wantAfter {
				t.Errorf("it counts as gone: %t, want %t", got, c.wantAfter)
			}
			stays := l.Sweep(start.Add(2 * Lag))
			if got := l.Has(v); got != c.wantLater || len(stays) > 0 != c.wantStays {
				t.Errorf("a while later it counts as gone: %t, want %t; %d may stay, want that: %t", got, c.wantLater, len(stays), c.wantStays)
			}
		})
	}
}

// TestListsSpeakOfTheirOwnNamespace checks that the disruption in a PodGroup's status affects only
// pods of its namespace, even if it lists UIDs of other pods.
func TestListsSpeakOfTheirOwnNamespace(t *testing.T) {
	t.Parallel()
	var l Pods
	l.List(group, []v1alpha1.DisruptedPod{{UID: "x"}})
	if !l.Has(inNamespace("ns", "x")) || l.Has(inNamespace("other", "x")) {
		t.Error("A pod of the list's namespace does not count as leaving, or one of another does")
	}
	l.Gone(inNamespace("other", "x"), time.Now())
	if len(l.victims) > 0 {
		t.Error("A pod that is on no list is remembered")
	}
}

// TestPods checks when Pods drops a pod. It must not drop a pod too early, and must not keep it
// forever.
func TestPods(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	victims := map[types.UID]*corev1.Pod{"a": nil, "b": nil}
	var l Pods
	has := func(uid types.UID) bool { return l.Has(inNamespace("ns", uid)) }
	b := sets.New[types.UID]("b")
	first, second := l.Take(victims), l.Take(victims)
	l.Spare(first, b)
	if !has("a") {
		t.Error("A victim of another eviction is spared")
	}
	l.Spare(second, b)
	if has("a") {
		t.Error("A victim of none is not spared")
	}
	l.Gone(inNamespace("ns", "b"), now)
	l.Spare(first, nil)
	l.Spare(second, nil)
	if !has("b") {
		t.Error("One that has just gone is not known any more, and the snapshot may still have it")
	}
	l.Sweep(now.Add(2 * Lag))
	if has("b") || len(l.victims) != 0 {
		t.Error("One that has long gone is remembered")
	}
	l.Take(victims)
	l.Placed("a")
	if has("a") || !has("b") {
		t.Error("One that has a place again counts as leaving, or the other does not")
	}
	if dropped := l.List(group, []v1alpha1.DisruptedPod{{UID: "x"}, {UID: "y"}}); dropped != nil || !has("x") || !l.Lists(group) {
		t.Errorf("%v are dropped from a new list", dropped)
	}
	if dropped := l.List(group, []v1alpha1.DisruptedPod{{UID: "y"}}); len(dropped) != 1 || dropped[0].UID != "x" || has("x") {
		t.Errorf("%v are dropped from the list", dropped)
	}
	l.Spare(l.Take(map[types.UID]*corev1.Pod{"y": nil}), nil)
	if has("y") {
		t.Error("One that stays counts as leaving, because a list still has it")
	}
	l.List(group, []v1alpha1.DisruptedPod{{UID: "y"}})
	if has("y") {
		t.Error("One that stays counts as leaving, because news of the list comes late")
	}
	l.List(group, nil)
	l.List(group, []v1alpha1.DisruptedPod{{UID: "y"}})
	if !has("y") || len(l.spared) > 0 {
		t.Error("One that is listed anew does not count as leaving")
	}
	l.Gone(inNamespace("ns", "y"), now)
	if l.List(group, nil); !has("y") || l.Lists(group) {
		t.Error("One that has just gone is not known any more")
	}
}

func inNamespace(namespace string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: uid}}
}
