package scheduling

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// composite creates a CompositePodGroup. parent is the name of its parent, or "" if it has none.
func (e *env) composite(name, parent, priority string, minGroupCount int32, mode v1alpha1.CompositeDisruptionMode) {
	e.Helper()
	c := &v1alpha1.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	c.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: minGroupCount}
	c.Spec.DisruptionMode = &mode
	if priority != "" {
		c.Spec.PriorityClassName = &priority
	}
	if parent != "" {
		c.Spec.ParentCompositePodGroupName = &parent
	}
	e.Create(c)
}

// leaf creates a PodGroup below a parent, with minCount members.
func (e *env) leaf(name, parent, priority string, members int, pod podSpec) {
	e.Helper()
	g := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	g.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(members)}}
	g.Spec.ParentCompositePodGroupName = ptr.To(parent)
	if priority != "" {
		g.Spec.PriorityClassName = &priority
	}
	e.Create(g)
	pod.name, pod.group, pod.priority = name, name, priority
	e.create(pod.times(members)...)
}

// waitComposite waits until the condition PodGroupScheduled of a CompositePodGroup has the status
// and the reason.
func (e *env) waitComposite(name string, status metav1.ConditionStatus, reason string) {
	e.Helper()
	e.Eventually("the condition of CompositePodGroup "+name, func(ctx context.Context) string {
		c := e.compositeNamed(ctx, name)
		if c == nil {
			return "there is none"
		}
		now := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		if now == nil || now.Status != status || now.Reason != reason {
			return fmt.Sprintf("it is %+v", now)
		}
		return ""
	})
}

func (e *env) compositeNamed(ctx context.Context, name string) *v1alpha1.CompositePodGroup {
	var c v1alpha1.CompositePodGroup
	if err := e.Objects.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, &c); err != nil {
		return nil
	}
	return &c
}

func TestTreeIsPlacedWhole(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(2, "a", "b")
	e.composite("serving", "", "", 2, v1alpha1.CompositeDisruptionModeSingle)
	e.composite("decode", "serving", "", 1, v1alpha1.CompositeDisruptionModeSingle)
	e.leaf("prefill", "serving", "", 2, podSpec{cpus: 2})
	e.leaf("decode-0", "decode", "", 1, podSpec{cpus: 2})
	e.waitComposite("serving", metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	e.waitComposite("decode", metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	e.WaitCondition("prefill", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	e.staysUnbound("prefill")
	e.staysUnbound("decode-0")
	e.AddNodes(2, "c")
	e.waitBound("prefill", 2)
	e.waitBound("decode-0", 1)
	e.waitComposite("serving", metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	e.waitComposite("decode", metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	e.WaitCondition("decode-0", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
}

func TestTreeIsPreemptedByItsHighestMode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		root, middle v1alpha1.CompositeDisruptionMode
		// stays is true if the PodGroup outside of the evicted unit must keep its nodes. target is
		// the name of the unit.
		stays  bool
		target string
	}{
		"root":   {root: v1alpha1.CompositeDisruptionModeAll, middle: v1alpha1.CompositeDisruptionModeSingle, target: "root"},
		"middle": {root: v1alpha1.CompositeDisruptionModeSingle, middle: v1alpha1.CompositeDisruptionModeAll, stays: true, target: "middle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, stage.ReprieveGroups())
			e.AddNodes(2, "a", "b", "c")
			e.composite("root", "", "low", 2, tc.root)
			e.composite("middle", "root", "low", 2, tc.middle)
			e.leaf("x", "middle", "low", 1, podSpec{cpus: 2, on: "a"})
			e.leaf("y", "middle", "low", 1, podSpec{cpus: 2, on: "b"})
			e.leaf("z", "root", "low", 1, podSpec{cpus: 2, on: "c"})
			e.waitRunning("x-0", "y-0", "z-0")
			e.create(podSpec{name: "high", priority: "high", cpus: 2, on: "a"})
			e.waitRunning("high")
			e.Gone("x-0")
			e.Gone("y-0")
			if tc.stays {
				e.waitRunning("z-0")
			} else {
				e.Gone("z-0")
			}
			e.Eventually("the unit shows the preemption", func(ctx context.Context) string {
				c := e.compositeNamed(ctx, tc.target)
				if c == nil || c.Status.LastDisruption == nil || c.Status.LastDisruption.Preemptor.Name != "high" || c.Status.Disruption != nil {
					return fmt.Sprintf("it has %+v", c)
				}
				return ""
			})
		})
	}
}

func TestFlawedTreesStartNothing(t *testing.T) {
	t.Parallel()
	single := v1alpha1.CompositeDisruptionModeSingle
	cases := map[string]struct {
		plant      func(e *env)
		wantReason string
		// wantNamed is a part of the expected message.
		wantNamed string
	}{
		"a parent that never comes": {wantReason: v1alpha1.ReasonParentNotFound, wantNamed: `the parent "r0"`, plant: func(*env) {}},
		"a cycle": {wantReason: v1alpha1.ReasonParentCycle, wantNamed: "its own ancestor", plant: func(e *env) {
			e.composite("r1", "r0", "high", 1, single)
			e.composite("r0", "r1", "high", 1, single)
		}},
		"depth 5": {wantReason: v1alpha1.ReasonTreeTooDeep, wantNamed: "at most 4 levels", plant: func(e *env) {
			e.composite("r3", "", "high", 1, single)
			for i := range 3 {
				e.composite(fmt.Sprint("r", 2-i), fmt.Sprint("r", 3-i), "high", 1, single)
			}
		}},
		"another priority": {wantReason: v1alpha1.ReasonPriorityDiffers, wantNamed: "has priority 1000", plant: func(e *env) {
			e.composite("r0", "", "mid", 1, single)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, stage.ReprieveGroups())
			e.AddNodes(2, "a")
			e.createRunning(podSpec{name: "low", priority: "low", cpus: 2, on: "a"})
			tc.plant(e)
			e.leaf("leaf", "r0", "high", 1, podSpec{cpus: 2, on: "a"})
			e.WaitCondition("leaf", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, tc.wantReason, tc.wantNamed)
			e.staysUnbound("leaf")
			e.waitRunning("low")
		})
	}
}

// TestRunningTreeLosesAGroup deletes the root or a PodGroup of a running tree. All members stay.
func TestRunningTreeLosesAGroup(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lost client.Object
		// check waits for the report about the loss.
		check func(e *env)
	}{
		"the root": {lost: &v1alpha1.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Name: "root"}}, check: func(e *env) {
			e.WaitCondition("x", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled, `names the parent "root"`)
		}},
		"a PodGroup": {lost: &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "y"}}, check: func(e *env) {
			e.Eventually("the root is degraded", func(ctx context.Context) string {
				if c := e.compositeNamed(ctx, "root"); c == nil || c.Status.Phase != v1alpha1.PodGroupDegraded {
					return fmt.Sprintf("it is %+v", c)
				}
				return ""
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, stage.ReprieveGroups())
			e.AddNodes(2, "a")
			e.composite("root", "", "low", 2, v1alpha1.CompositeDisruptionModeSingle)
			e.leaf("x", "root", "low", 1, podSpec{cpus: 1})
			e.leaf("y", "root", "low", 1, podSpec{cpus: 1})
			e.waitRunning("x-0", "y-0")
			e.waitComposite("root", metav1.ConditionTrue, v1alpha1.ReasonScheduled)
			tc.lost.SetNamespace(e.Namespace)
			if err := e.Objects.Delete(t.Context(), tc.lost); err != nil {
				t.Fatal(err)
			}
			tc.check(e)
			e.waitRunning("x-0", "y-0")
		})
	}
}
