package scheduling

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestWhoIsTaken is the test plan of KEP-5710. The preemptor is a single pod or a gang. The victims
// are groups with the disruption mode Pod or PodGroup.
func TestWhoIsTaken(t *testing.T) {
	t.Parallel()
	type testCase struct {
		whole    bool
		byGang   int
		cpus     int64
		wantGone int
	}
	// Four victims with 2 CPUs each fill two nodes.
	cases := map[string]testCase{
		"mode Pod, by a pod":       {cpus: 2, wantGone: 1},
		"mode Pod, by a gang":      {byGang: 2, cpus: 2, wantGone: 2},
		"mode PodGroup, by a pod":  {whole: true, cpus: 2, wantGone: 4},
		"mode PodGroup, by a gang": {whole: true, byGang: 2, cpus: 2, wantGone: 4},
		"mode Pod, by a big pod":   {cpus: 4, wantGone: 2},
		// In these cases, the room of one victim is sufficient.
		"mode Pod, by a small gang":      {byGang: 2, cpus: 1, wantGone: 1},
		"mode PodGroup, by a small gang": {whole: true, byGang: 2, cpus: 1, wantGone: 4},
	}
	each(t, cases, func(e *env, c testCase) {
		e.AddNodes(4, "a", "b")
		e.runningGang(stage.Group{Name: "victims", MinCount: 4, Whole: c.whole, Priority: "low"}, 4, podSpec{cpus: 2})
		preemptor := "urgent"
		if c.byGang > 0 {
			e.gang(stage.Group{Name: preemptor, MinCount: int32(c.byGang), Priority: "high"}, c.byGang, podSpec{cpus: c.cpus})
			e.waitBound(preemptor, c.byGang)
		} else {
			e.create(podSpec{name: preemptor, cpus: c.cpus, priority: "high"})
			e.waitRunning(preemptor)
		}
		e.Never("no more than those are taken", func(ctx context.Context) string {
			if gone := 4 - e.bound(ctx, "victims"); gone != c.wantGone {
				return fmt.Sprintf("%d are gone, want %d", gone, c.wantGone)
			}
			return ""
		})
		if c.whole {
			e.WaitCondition("victims", v1alpha1.ConditionDisruptionTarget, metav1.ConditionFalse, v1alpha1.ReasonPreemptionByScheduler)
		} else if got := e.Condition(e.Context(), "victims", v1alpha1.ConditionDisruptionTarget); got != nil {
			e.Errorf("A group in mode Pod has the condition %v", got)
		}
	})
}

// TestVictimsAreTold checks the status of terminating victims. A finalizer keeps the victims, so
// that the test can read it.
func TestVictimsAreTold(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testVictimsAreTold)
}

func testVictimsAreTold(e *env) {
	e.AddNodes(4, "a")
	e.runningGang(stage.Group{Name: "victims", MinCount: 2, Whole: true, Priority: "low"}, 2, podSpec{cpus: 2, change: stage.Hold})
	e.gang(stage.Group{Name: "urgent", MinCount: 2, Priority: "high"}, 2, podSpec{cpus: 1})

	told := []string{"PodGroup " + e.Namespace + "/urgent", "priority 1000", "LowerPriority", "100"}
	e.WaitCondition("victims", v1alpha1.ConditionDisruptionTarget, metav1.ConditionTrue, v1alpha1.ReasonPreemptionByScheduler, told...)
	for _, name := range []string{"victims-0", "victims-1"} {
		e.Eventually(name+" is told why it goes", func(ctx context.Context) string {
			pod := e.Find(ctx, name)
			if pod == nil || pod.DeletionTimestamp == nil {
				return "it is not going"
			}
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
					c.Reason == corev1.PodReasonPreemptionByScheduler && stage.Mentions(c.Message, told) {
					return ""
				}
			}
			return fmt.Sprintf("its conditions are %v", pod.Status.Conditions)
		})
		e.WaitEvent(name, "Preempted", told...)
	}
	e.WaitEvent("victims", "Preempted", told...)
	e.WaitEvent("urgent", "Preempting", e.Namespace+"/victims")
	e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
	e.staysUnbound("urgent")
	e.LetGo("victims-0", "victims-1")
	e.waitBound("urgent", 2)
	e.WaitCondition("victims", v1alpha1.ConditionDisruptionTarget, metav1.ConditionFalse, v1alpha1.ReasonPreemptionByScheduler)
}

// TestPodsThatAreLeavingCountAsGone checks that the scheduler evicts no more pods while the victims
// of a preemptor terminate slowly.
func TestPodsThatAreLeavingCountAsGone(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*env){
		"for a gang": func(e *env) {
			e.gang(stage.Group{Name: "urgent", MinCount: 1, Priority: "high"}, 1, podSpec{cpus: 2})
		},
		"for a pod": func(e *env) { e.create(podSpec{name: "urgent-0", cpus: 2, priority: "high"}) },
	}
	each(t, cases, func(e *env, arrive func(*env)) {
		e.AddNodes(2, "a", "b")
		e.createRunning(podSpec{name: "victim", cpus: 2, priority: "low", change: stage.Hold}.times(2)...)
		arrive(e)
		leaving := func(ctx context.Context) []string {
			var names []string
			for _, name := range []string{"victim-0", "victim-1"} {
				if pod := e.Find(ctx, name); pod != nil && pod.DeletionTimestamp != nil {
					names = append(names, name)
				}
			}
			return names
		}
		e.Eventually("one victim is leaving", func(ctx context.Context) string {
			if len(leaving(ctx)) == 0 {
				return "none is"
			}
			return ""
		})
		// Cause an event, so that the scheduler plans again.
		e.AddNodes(1, "c")
		e.create(podSpec{name: "passer-by", cpus: 1, on: "c"})
		e.Never("no second victim is taken", func(ctx context.Context) string {
			if names := leaving(ctx); len(names) != 1 {
				return fmt.Sprintf("%v are leaving", names)
			}
			return ""
		})
		e.LetGo(leaving(e.Context())...)
		e.waitRunning("urgent-0")
	})
}

// TestWaitsForPodsThatLeaveAnyway tests a preemptor that fits when terminating pods are gone. The
// preemptor must wait for these pods, and must not preempt.
func TestWaitsForPodsThatLeaveAnyway(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testWaitsForPodsThatLeaveAnyway)
}

func testWaitsForPodsThatLeaveAnyway(e *env) {
	e.AddNodes(2, "a", "b")
	e.createRunning(podSpec{name: "leaving", cpus: 2, on: "a", change: stage.Hold}, podSpec{name: "staying", cpus: 2, priority: "low", on: "b"})
	e.remove("leaving")
	e.gang(stage.Group{Name: "urgent", MinCount: 1, Priority: "high"}, 1, podSpec{cpus: 2})
	e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonPreempting)
	e.Never("nobody is taken", func(ctx context.Context) string {
		if pod := e.Find(ctx, "staying"); pod == nil || pod.DeletionTimestamp != nil {
			return "the staying pod goes"
		}
		return ""
	})
	e.LetGo("leaving")
	e.waitBound("urgent", 1)
}

func TestGracePeriodIsHonoured(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testGracePeriodIsHonoured)
}

func testGracePeriodIsHonoured(e *env) {
	e.AddNodes(2, "a")
	e.createRunning(podSpec{name: "victim", cpus: 2, priority: "low", grace: 10})
	e.gang(stage.Group{Name: "urgent", MinCount: 1, Priority: "high"}, 1, podSpec{cpus: 2})
	e.Eventually("the victim is leaving with its own grace period", func(ctx context.Context) string {
		pod := e.Find(ctx, "victim")
		if pod == nil {
			return "it is gone already"
		}
		if pod.DeletionTimestamp == nil || ptr.Deref(pod.DeletionGracePeriodSeconds, 0) != 10 {
			return "it is not"
		}
		return ""
	})
	e.Never("nobody is bound while the victim runs", func(ctx context.Context) string {
		n := e.bound(ctx, "urgent")
		if n > 0 && e.Find(ctx, "victim") != nil {
			return "the preemptor is bound"
		}
		return ""
	})
	e.waitBound("urgent", 1)
}

// TestNobodyIsTaken tests preemptors that must not preempt, and preemptors that would not fit after
// a preemption. No pod may be evicted.
func TestNobodyIsTaken(t *testing.T) {
	t.Parallel()
	type testCase struct {
		victim, preemptor string
		cpus              int64
		members           int
		reason            []string
	}
	cases := map[string]testCase{
		"preemptionPolicy Never": {victim: "low", preemptor: "patient", cpus: 2, members: 2, reason: []string{"Never"}},
		"equal priority":         {victim: "high", preemptor: "high", cpus: 2, members: 2},
		"higher priority":        {victim: "higher", preemptor: "high", cpus: 2, members: 2},
		"it would not help":      {victim: "low", preemptor: "high", cpus: 3, members: 3},
		"too big for any node":   {victim: "low", preemptor: "high", cpus: 9, members: 1},
	}
	each(t, cases, func(e *env, c testCase) {
		e.AddNodes(4, "a", "b")
		e.runningGang(stage.Group{Name: "victims", MinCount: 4, Priority: c.victim}, 4, podSpec{cpus: 2})
		e.gang(stage.Group{Name: "urgent", MinCount: int32(c.members), Priority: c.preemptor}, c.members, podSpec{cpus: c.cpus})
		e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, c.reason...)
		e.Never("nobody is taken", func(ctx context.Context) string {
			if n := e.bound(ctx, "victims"); n != 4 {
				return fmt.Sprintf("%d of 4 victims are left", n)
			}
			return ""
		})
	})
}

// TestOwnGangIsNeverAVictim checks that a new member of a gang never evicts another member of the
// gang, even if the new member has a higher priority.
func TestOwnGangIsNeverAVictim(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testOwnGangIsNeverAVictim)
}

func testOwnGangIsNeverAVictim(e *env) {
	e.AddNodes(2, "a", "b")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 2, Priority: "mid"})
	e.createRunning(
		podSpec{name: "m-0", group: "g", cpus: 2, priority: "low"},
		podSpec{name: "m-1", group: "g", cpus: 2, priority: "low"},
	)
	e.create(podSpec{name: "m-2", group: "g", cpus: 2, priority: "higher"})
	e.WaitEvent("m-2", "FailedScheduling")
	e.Never("no member is taken", func(ctx context.Context) string {
		for _, name := range []string{"m-0", "m-1"} {
			if pod := e.Find(ctx, name); pod == nil || pod.DeletionTimestamp != nil {
				return name + " goes"
			}
		}
		return ""
	})
}

// TestPodGroupPriorityCounts checks that the priority of a PodGroup replaces the priorities of its
// pods, both for preemptors and for victims.
func TestPodGroupPriorityCounts(t *testing.T) {
	t.Parallel()
	type testCase struct {
		victimGroup, victimPods       string
		preemptorGroup, preemptorPods string
		whole, wantTaken              bool
	}
	cases := map[string]testCase{
		"the victims' group is lower than its pods":      {"low", "higher", "high", "high", false, true},
		"the victims' group is higher than its pods":     {"higher", "low", "high", "high", false, false},
		"whole, and lower than its pods":                 {"low", "higher", "high", "high", true, true},
		"whole, and higher than its pods":                {"higher", "low", "high", "high", true, false},
		"the preemptor's group is higher than its pods":  {"mid", "mid", "high", "unrelated", false, true},
		"the preemptor's group is lower than its pods":   {"mid", "mid", "low", "higher", false, false},
		"priorities of pods are the other way about":     {"low", "high", "mid", "unrelated", true, true},
		"and groups of equal priority leave one another": {"mid", "low", "mid", "high", true, false},
	}
	each(t, cases, func(e *env, c testCase) {
		e.AddNodes(4, "a")
		e.runningGang(stage.Group{Name: "victims", MinCount: 2, Whole: c.whole, Priority: c.victimGroup}, 2,
			podSpec{cpus: 2, priority: c.victimPods})
		e.gang(stage.Group{Name: "urgent", MinCount: 2, Priority: c.preemptorGroup}, 2, podSpec{cpus: 2, priority: c.preemptorPods})
		if c.wantTaken {
			e.waitBound("urgent", 2)
			e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
			return
		}
		e.WaitCondition("urgent", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
		e.Never("nobody is taken", func(ctx context.Context) string {
			if n := e.bound(ctx, "victims"); n != 2 {
				return fmt.Sprintf("%d of 2 are left", n)
			}
			return ""
		})
	})
}

// TestSinglePodsPreemptAsWithKubeScheduler checks that a single pod evicts the pod of the lowest
// priority and runs on its node. The test uses no PodGroups, so it runs only once.
func TestSinglePodsPreemptAsWithKubeScheduler(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(4, "a", "b")
	e.createRunning(
		podSpec{name: "a-mid", cpus: 4, priority: "mid", on: "a"},
		podSpec{name: "b-low", cpus: 2, priority: "low", on: "b"},
		podSpec{name: "b-mid", cpus: 2, priority: "mid", on: "b"},
	)
	e.create(podSpec{name: "urgent", cpus: 2, priority: "high"})
	e.waitRunning("urgent")
	if got := e.nodeOf("urgent"); got != "b" {
		t.Errorf("The preemptor is on %s, want b", got)
	}
	e.waitRunning("a-mid", "b-mid")
	if e.Find(t.Context(), "b-low") != nil {
		t.Error("The pod of the lowest priority is still there")
	}
}

// TestDisruptionBudgets checks that the scheduler violates a PodDisruptionBudget only if there are
// no other victims.
func TestDisruptionBudgets(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		guarded []string
		want    []string
	}{
		"where there is a choice":  {guarded: []string{"victim-0"}, want: []string{"victim-1"}},
		"where there is no choice": {guarded: []string{"victim-0", "victim-1"}, want: []string{"victim-0", "victim-1"}},
	}
	each(t, cases, func(e *env, c struct {
		guarded []string
		want    []string
	}) {
		e.AddNodes(2, "a", "b")
		for i, name := range []string{"victim-0", "victim-1"} {
			s := podSpec{name: name, cpus: 2, priority: "low", on: []string{"a", "b"}[i], labels: map[string]string{}}
			if slices.Contains(c.guarded, name) {
				s.labels["guarded"] = "yes"
			}
			e.createRunning(s)
		}
		e.guard(int32(len(c.guarded)), int32(len(c.guarded)))
		e.gang(stage.Group{Name: "urgent", MinCount: 1, Priority: "high"}, 1, podSpec{cpus: 2})
		e.waitBound("urgent", 1)
		var gone []string
		for _, name := range []string{"victim-0", "victim-1"} {
			if pod := e.Find(e.Context(), name); pod == nil || pod.DeletionTimestamp != nil {
				gone = append(gone, name)
			}
		}
		if len(gone) != 1 || !slices.Contains(c.want, gone[0]) {
			e.Errorf("%v went, want one of %v", gone, c.want)
		}
	})
}
