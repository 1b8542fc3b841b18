package workloads

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// members creates pods of a group. Their numbers start at "from" and end before "to". Each pod
// requests two CPUs.
func (e *env) members(group, class string, from, to int) {
	e.Helper()
	for i := from; i < to; i++ {
		e.member(fmt.Sprintf("%s-%d", group, i), group, "", class, 2)
	}
}

// setMinCount changes the minCount of a gang. Since v1beta1, the API permits this change at any
// time.
func (e *env) setMinCount(group *unstructured.Unstructured, to int) {
	e.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, to)
	if err := e.Objects.Patch(e.Context(), group, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		e.Fatalf("minCount %d: %v", to, err)
	}
}

// placed returns the sorted names and UIDs of pods that have a node and are not terminating.
func (e *env) placed(ctx context.Context, prefix string) []string {
	e.Helper()
	var out []string
	for _, pod := range e.Pods(ctx, prefix) {
		if pod.Spec.NodeName != "" {
			out = append(out, pod.Name+" "+string(pod.UID))
		}
	}
	slices.Sort(out)
	return out
}

// stayPlaced checks for some time that placed returns the same pods.
func (e *env) stayPlaced(prefix string, want []string) {
	e.Helper()
	e.Never(fmt.Sprintf("%d members of %s have a node", len(want), prefix), func(ctx context.Context) string {
		if got := e.placed(ctx, prefix); !slices.Equal(got, want) {
			return fmt.Sprintf("these have: %v, want %v", got, want)
		}
		return ""
	})
}

// waits blocks until the condition of a gang reports that it waits for the reason.
func (e *env) waits(group, reason string, phrases ...string) {
	e.Helper()
	e.WaitCondition(group, v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, reason, phrases...)
}

func (e *env) scheduled(group string, phrases ...string) {
	e.Helper()
	e.WaitCondition(group, v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled, phrases...)
}

// testMinCountThatChanges reduces the minCount of a waiting gang. The gang must be placed when
// minCount members have room.
func testMinCountThatChanges(e *env) {
	e.AddNodes(4, "a")
	group := e.group("g", 3, "low")
	e.members("g", "low", 0, 3)
	e.waits("g", v1alpha1.ReasonUnschedulable)
	e.noneBound("g-")
	e.setMinCount(group, 2)
	e.Runs("g-", 2)
	e.scheduled("g", "2 are needed")
	running := e.placed(e.Context(), "g-")
	e.setMinCount(group, 3)
	e.waits("g", v1alpha1.ReasonUnschedulable)
	e.stayPlaced("g-", running)
}

// testMinCountRaisedWhileWaiting raises the minCount of a waiting gang. Then room for the old
// number of members must not suffice.
func testMinCountRaisedWhileWaiting(e *env) {
	e.AddNodes(4, "a")
	e.Create(stage.NewPod(e.Namespace, "blocker", "high", 4))
	e.Runs("blocker", 1)
	group := e.group("g", 2, "low")
	e.members("g", "low", 0, 2)
	e.waits("g", v1alpha1.ReasonUnschedulable)
	e.setMinCount(group, 3)
	e.waits("g", v1alpha1.ReasonNotEnoughMembers, "needs 3 members and has 2")
	e.remove("blocker")
	e.noneBound("g-")
	e.members("g", "low", 2, 3)
	e.waits("g", v1alpha1.ReasonUnschedulable)
	e.noneBound("g-")
	e.AddNodes(2, "b")
	e.Runs("g-", 3)
	e.scheduled("g", "3 are needed")
}

// testMinCountRaisedWhilePreempting raises the minCount of a gang that waits for its victims. The
// scheduler must drop its plan and release the reserved room.
func testMinCountRaisedWhilePreempting(e *env) {
	e.AddNodes(2, "a", "b")
	victims := e.heldVictims(2)
	group := e.group("g", 2, "high")
	e.members("g", "high", 0, 2)
	e.leave(victims...)
	e.setMinCount(group, 3)
	e.waits("g", v1alpha1.ReasonNotEnoughMembers, "needs 3 members and has 2")
	e.LetGo(victims...)
	for _, name := range victims {
		e.Gone(name)
	}
	e.noneBound("g-")
	// The gang has no reservation, so other pods must get the room.
	for i := range 2 {
		e.Create(stage.NewPod(e.Namespace, fmt.Sprintf("next-%d", i), "low", 2))
	}
	e.Runs("next-", 2)
	e.members("g", "high", 2, 3)
	e.waits("g", v1alpha1.ReasonUnschedulable)
	e.Runs("next-", 2)
	e.AddNodes(2, "c")
	e.Runs("g-", 3)
	e.Runs("next-", 0)
}

// testMinCountLoweredWhilePreempting reduces the minCount of a gang that waits for its victims. The
// members with room must run before the victims are gone.
func testMinCountLoweredWhilePreempting(e *env) {
	e.AddNodes(2, "b")
	victims := e.heldVictims(1)
	e.AddNodes(2, "a")
	group := e.group("g", 2, "high")
	e.members("g", "high", 0, 2)
	e.leave(victims...)
	e.waits("g", v1alpha1.ReasonPreempting)
	e.noneBound("g-")
	e.setMinCount(group, 1)
	e.Runs("g-", 1)
	e.scheduled("g", "1 are needed")
	e.LetGo(victims...)
	e.Runs("g-", 2)
}

// testMinCountWhileRunning changes the minCount of a running gang. Its members must keep their
// nodes, and new members must be placed together.
func testMinCountWhileRunning(e *env) {
	e.AddNodes(6, "a")
	group := e.group("g", 2, "low")
	e.members("g", "low", 0, 2)
	e.Runs("g-", 2)
	e.scheduled("g", "2 are needed")
	running := e.placed(e.Context(), "g-")
	e.setMinCount(group, 1)
	e.scheduled("g", "1 are needed")
	e.stayPlaced("g-", running)

	e.setMinCount(group, 4)
	e.waits("g", v1alpha1.ReasonNotEnoughMembers, "needs 4 members and has 2")
	e.WaitCondition("g", "PodGroupInitiallyScheduled", metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	e.members("g", "low", 2, 3)
	e.waits("g", v1alpha1.ReasonNotEnoughMembers, "needs 4 members and has 3")
	e.stayPlaced("g-", running)
	e.members("g", "low", 3, 4)
	e.waits("g", v1alpha1.ReasonUnschedulable)
	e.stayPlaced("g-", running)
	e.AddNodes(2, "b")
	e.Runs("g-", 4)
	e.scheduled("g", "4 are needed")
	if now := e.placed(e.Context(), "g-"); !slices.Equal(now[:2], running) {
		e.Errorf("%v run, and not %v any more", now, running)
	}
}
