package scheduling

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

func TestSurplusIsPlacedWhenRoomAppears(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*env){
		"a node is added": func(e *env) { e.AddNodes(4, "b") },
		"a pod finishes":  func(e *env) { e.remove("filler") },
	}
	each(t, cases, func(e *env, makeRoom func(*env)) {
		e.AddNodes(6, "a")
		e.createRunning(podSpec{name: "filler", cpus: 2, priority: "low"})
		e.gang(stage.Group{Name: "g", MinCount: 2}, 3, podSpec{cpus: 2})
		e.waitBound("g", 2)
		e.Never("the surplus waits", func(ctx context.Context) string {
			if n := e.bound(ctx, "g"); n != 2 {
				return fmt.Sprintf("%d are bound", n)
			}
			return ""
		})
		makeRoom(e)
		e.waitBound("g", 3)
	})
}

func TestTwoGangsThatFitOnlyOneAtATime(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ members, cpus int64 }{
		"two of four":    {members: 4, cpus: 1},
		"three of three": {members: 3, cpus: 2},
		"members differ": {members: 5, cpus: 1},
		"as many again":  {members: 4, cpus: 1},
		"and once more":  {members: 6, cpus: 1},
	}
	each(t, cases, func(e *env, c struct{ members, cpus int64 }) {
		// The nodes have room for all members of one gang, and for half of the other gang.
		e.AddNodes(c.cpus, nodeNames(int(c.members+c.members/2))...)
		var pods sync.WaitGroup
		for _, g := range []string{"x", "y"} {
			e.CreateGroup(stage.Group{Name: g, MinCount: int32(c.members)})
		}
		for _, g := range []string{"x", "y"} {
			for _, s := range (podSpec{name: g, group: g, cpus: c.cpus}).times(int(c.members)) {
				pods.Go(func() {
					if _, err := e.Kube.CoreV1().Pods(e.Namespace).Create(e.Context(), s.build(e), metav1.CreateOptions{}); err != nil {
						e.Errorf("create pod %s: %v", s.name, err)
					}
				})
			}
		}
		pods.Wait()
		whole := func(ctx context.Context) (x, y int) { return e.bound(ctx, "x"), e.bound(ctx, "y") }
		e.Eventually("one gang is whole", func(ctx context.Context) string {
			if x, y := whole(ctx); max(x, y) != int(c.members) {
				return fmt.Sprintf("%d and %d are bound", x, y)
			}
			return ""
		})
		e.Never("the other has nothing", func(ctx context.Context) string {
			if x, y := whole(ctx); min(x, y) != 0 {
				return fmt.Sprintf("%d and %d are bound", x, y)
			}
			return ""
		})
		winner, loser := "x", "y"
		if x, _ := whole(e.Context()); x == 0 {
			winner, loser = loser, winner
		}
		e.WaitCondition(loser, v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
		for i := range c.members {
			e.remove(fmt.Sprintf("%s-%d", winner, i))
		}
		e.waitBound(loser, int(c.members))
	})
}

// nodeNames returns a number of short node names.
func nodeNames(count int) []string {
	out := make([]string, count)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

func TestMemberIsDeletedWhileTheGangWaits(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testMemberIsDeletedWhileTheGangWaits)
}

func testMemberIsDeletedWhileTheGangWaits(e *env) {
	e.AddNodes(4, "a")
	e.gang(stage.Group{Name: "g", MinCount: 2}, 3, podSpec{cpus: 3})
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	// The deleted pod may be the leader of the gang. Another member must take its place.
	e.remove("g-0")
	e.AddNodes(4, "b")
	e.waitBound("g", 2)
	e.remove("g-1")
	e.create(podSpec{name: "g-3", group: "g", cpus: 3})
	e.waitBound("g", 2)
}

func TestLeaderWithAFinalizerIsDeleted(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testLeaderWithAFinalizerIsDeleted)
}

func testLeaderWithAFinalizerIsDeleted(e *env) {
	e.AddNodes(4, "a")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 2})
	e.create(podSpec{name: "g", group: "g", cpus: 3, change: stage.Hold}.times(3)...)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	// Find the leader: only its events have a message of the framework itself.
	leader := ""
	e.Eventually("the one that planned has heard of it", func(ctx context.Context) string {
		for _, ev := range e.EventsOf(ctx, "", "") {
			if strings.Contains(ev.Message, "nodes are available") {
				leader = ev.InvolvedObject.Name
				return ""
			}
		}
		return "nobody has"
	})
	e.remove(leader)
	e.AddNodes(4, "b")
	e.waitBound("g", 2)
}

func TestRecreatedMemberJoinsTheRunningGang(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testRecreatedMemberJoinsTheRunningGang)
}

func testRecreatedMemberJoinsTheRunningGang(e *env) {
	e.AddNodes(2, "a", "b", "c")
	e.runningGang(stage.Group{Name: "g", MinCount: 3}, 3, podSpec{cpus: 2})
	e.remove("g-1")
	e.Eventually("the member has gone", func(ctx context.Context) string {
		if e.Find(ctx, "g-1") != nil {
			return "it is still there"
		}
		return ""
	})
	e.create(podSpec{name: "g-1", group: "g", cpus: 2})
	e.waitBound("g", 3)
}

func TestFinishedMembersDoNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testFinishedMembersDoNotHoldUpTheOthers)
}

func testFinishedMembersDoNotHoldUpTheOthers(e *env) {
	e.AddNodes(4, "a")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 3})
	short := func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"playground.reprieve.dev/run-for": "1s"}
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	e.create(podSpec{name: "done", group: "g", cpus: 1, change: short}.times(2)...)
	e.create(podSpec{name: "long", group: "g", cpus: 1})
	e.Eventually("two members succeed", func(ctx context.Context) string {
		n := 0
		for _, pod := range e.pods(ctx, "g") {
			if pod.Status.Phase == corev1.PodSucceeded {
				n++
			}
		}
		if n != 2 {
			return fmt.Sprintf("%d have", n)
		}
		return ""
	})
	e.remove("long")
	e.create(podSpec{name: "again", group: "g", cpus: 1})
	e.waitRunning("again")
}

func TestGangOfTwoClasses(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testGangOfTwoClasses)
}

func testGangOfTwoClasses(e *env) {
	e.AddNodes(8, "big")
	e.AddNodes(2, "s1", "s2")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 4})
	e.create(podSpec{name: "worker", group: "g", cpus: 2}.times(3)...)
	e.staysUnbound("g")
	// The pod with the name "leader" fits only on the big node. If the workers were placed first,
	// they would fill that node.
	e.create(podSpec{name: "leader", group: "g", cpus: 6})
	e.waitBound("g", 4)
	if got := e.nodeOf("leader"); got != "big" {
		e.Errorf("The leader is on %s, want big", got)
	}
}

func TestNodeVanishesWhileTheGangWaits(t *testing.T) {
	t.Parallel()
	onBothAPIs(t, testNodeVanishesWhileTheGangWaits)
}

func testNodeVanishesWhileTheGangWaits(e *env) {
	e.AddNodes(4, "a", "b")
	e.gang(stage.Group{Name: "g", MinCount: 3}, 3, podSpec{cpus: 3})
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	e.removeNode("b")
	e.AddNodes(4, "c")
	e.staysUnbound("g")
	e.AddNodes(4, "d")
	e.waitBound("g", 3)
}

// TestOnePlanningPass checks how often the scheduler plans for a waiting gang. It counts attempts
// of a profile that no other test uses. It does not run in parallel with other tests, because the
// scheduler plans again after every new node.
func TestOnePlanningPass(t *testing.T) {
	oneByOne(t, testOnePlanningPass)
}

func testOnePlanningPass(e *env) {
	e.AddNodes(4, "a")
	// Wait until the scheduler has cached the node. Otherwise a later update of the node would
	// cause another attempt.
	e.KnowsNodes()
	const members = 12
	before := e.attempts(countedProfile, "unschedulable")
	e.gang(stage.Group{Name: "g", MinCount: members}, members, podSpec{cpus: 1, scheduler: countedProfile})
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	e.staysUnbound("g")
	if n := e.attempts(countedProfile, "unschedulable") - before; n < 1 || n > 2 {
		e.Errorf("%d attempts for a gang of %d that does not fit, want one (or two, if something changed)", n, members)
	}
	e.AddNodes(4, "b", "c")
	e.waitBound("g", members)
	if n := e.attempts(countedProfile, "unschedulable") - before; n >= members {
		e.Errorf("%d failed attempts by the time a gang of %d is placed", n, members)
	}
}
