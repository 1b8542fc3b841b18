package scheduling

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestLastDisruption checks that the status of a PodGroup keeps the record of its last preemption,
// even after the gang runs again. The gang makes no progress between two preemptions, so the number
// of stops must increase.
func TestLastDisruption(t *testing.T) {
	t.Parallel()
	each(t, map[string]bool{"mode Pod": false, "mode PodGroup": true}, func(e *env, whole bool) {
		e.AddNodes(4, "a")
		e.runningGang(stage.Group{Name: "victims", MinCount: 2, Whole: whole, Priority: "low"}, 2, podSpec{cpus: 2})
		for count := range int32(2) {
			urgent := fmt.Sprintf("urgent-%d", count)
			e.create(podSpec{name: urgent, cpus: 4, priority: "high"})
			e.waitRunning(urgent)
			e.remove(urgent)
			again := podSpec{name: fmt.Sprintf("again-%d", count), group: "victims", cpus: 2, priority: "low"}
			e.create(again.times(2)...)
			e.waitBound("victims", 2)
			e.Eventually("it is known what took the group", func(ctx context.Context) string {
				last := lastDisruptionOf(e.PodGroup(ctx, "victims"))
				if last == nil || last.Count != count+1 || last.Preemptor.Name != urgent || last.Preemptor.Kind != v1alpha1.PreemptorPod ||
					last.Rule != "LowerPriority" || last.Time.IsZero() || last.Stops != count+1 || last.StopTime == nil {
					return fmt.Sprintf("%+v", last)
				}
				return ""
			})
		}
	})
}

func lastDisruptionOf(obj client.Object) *v1alpha1.LastDisruption {
	if pg, ok := obj.(*v1alpha1.PodGroup); ok {
		return pg.Status.LastDisruption
	}
	c := meta.FindStatusCondition(stage.ConditionsOf(obj), native.ConditionLastDisruption)
	var last v1alpha1.LastDisruption
	if c == nil || json.Unmarshal([]byte(c.Message), &last) != nil {
		return nil
	}
	return &last
}

// TestMistakes checks that the scheduler reports mistakes in objects that make work wait forever,
// or run without its gang.
func TestMistakes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(4, "a")
	e.CreateGroup(stage.Group{Name: "elsewhere", MinCount: 1})
	pod := stage.NewPod(e.Namespace, "elsewhere-0", "low", 1)
	pod.Labels = map[string]string{v1alpha1.LabelPodGroup: "elsewhere"}
	pod.Spec.SchedulerName = "reprieve"
	e.Create(pod)
	e.WaitCondition("elsewhere", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonSchedulerNotServed)
	e.WaitEvent("elsewhere-0", "FailedScheduling", `"reprieve"`, `"`+stage.Profile+`"`)

	odd := stage.NewPod(e.Namespace, "odd", "low", 1)
	odd.Labels = map[string]string{"reprieve.dev/podgroup": "elsewhere"}
	e.Create(odd)
	e.WaitEvent("odd", "UnknownLabel", "reprieve.dev/podgroup", v1alpha1.LabelPodGroup)

	e.CreateGroup(stage.Group{Name: "empty", MinCount: 1})
	e.Never("it is told once", func(ctx context.Context) string {
		seen := 0
		for _, ev := range e.EventsOf(ctx, "odd", "UnknownLabel") {
			seen += max(1, int(ev.Count))
		}
		if seen != 1 {
			return fmt.Sprintf("%d times", seen)
		}
		return ""
	})
	// An event about a PodGroup without members must come only after a minute. So check that there
	// is no such event yet.
	for _, ev := range e.EventsOf(e.Context(), "empty", "") {
		if ev.Type == corev1.EventTypeWarning && strings.Contains(ev.Reason, "NoMembers") {
			e.Errorf("an empty group is told of at once: %s", ev.Message)
		}
	}
}

// TestMinCountThatIsLowered reduces the minCount of a waiting gang. The gang must start with the
// members that have room.
func TestMinCountThatIsLowered(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(4, "a")
	e.gang(stage.Group{Name: "g", MinCount: 3, Priority: "low"}, 3, podSpec{cpus: 2})
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	e.setMinCount("g", 2, "")
	e.waitBound("g", 2)
	e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	e.setMinCount("g", 3, "cannot be raised while members have a node")
	e.setMinCount("g", 1, "")
	e.Never("its members stay", func(ctx context.Context) string {
		if n := e.bound(ctx, "g"); n != 2 {
			return fmt.Sprintf("%d have a node", n)
		}
		return ""
	})
}

// setMinCount changes the minCount of a PodGroup. If refused is not empty, the API server must
// reject the change with a message that contains refused.
func (e *env) setMinCount(group string, to int32, refused string) {
	e.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, to))
	err := e.Objects.Patch(e.Context(), e.NewGroup(stage.Group{Name: group}), patch)
	if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
		e.Fatalf("minCount %d: %v, want it refused: %q", to, err, refused)
	}
}
