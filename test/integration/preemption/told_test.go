package preemption

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestVictimsAreToldAndHaveTheirTime checks that each victim gets its whole grace period. The
// conditions and events of the victim and of the preemptor must name each other and the rule.
func TestVictimsAreToldAndHaveTheirTime(t *testing.T) {
	t.Parallel()
	// grace is the grace period of the victims in seconds. A finalizer keeps each victim after its
	// grace period until the test has read its status.
	const grace = 10
	cases := map[string]struct{ victim, preemptor int }{
		"a pod for a pod":      {},
		"a pod for a gang":     {preemptor: 2},
		"a group for a pod":    {victim: 2},
		"a group for a gang":   {victim: 2, preemptor: 2},
		"a single-pod group":   {victim: 1},
		"a gang of three pods": {victim: 3, preemptor: 3},
	}
	for name, c := range cases {
		each(t, name, c.victim+c.preemptor > 0, func(e *env) {
			e.addNodes("a", 1, 12)
			victim := unitSpec{name: "victim", cpus: 12 / int64(max(c.victim, 1)), priority: "low", gang: c.victim, held: true, grace: grace}
			urgent := unitSpec{name: "urgent", cpus: 12 / int64(max(c.preemptor, 1)), priority: "mid", gang: c.preemptor}
			e.createRunning(victim)
			e.create(urgent)
			kind := map[bool]string{true: "PodGroup", false: "Pod"}
			phrases := []string{
				"preempted by " + kind[c.preemptor > 0] + " " + e.Namespace + "/urgent (priority 500)", "LowerPriority", "priority is 100",
			}
			ends := e.waitTold(victim, grace, phrases)
			for _, pod := range victim.names() {
				e.waitEvent(pod, "Preempted", "urgent", phrases...)
			}
			if c.victim > 0 {
				e.waitEvent("victim", "Preempted", "urgent", phrases...)
			}
			e.waitEvent("urgent", "Preempting", "victim", e.Namespace+"/victim")
			// A victim runs until the end of its grace period. Then its containers terminate, and
			// only its finalizer keeps the pod.
			e.Eventually("the victims have had their time", func(ctx context.Context) string {
				pods := e.AllPods(ctx)
				running, placed := e.hadTime(pods, ends)
				if running > 0 && placed > 0 {
					e.Fatalf("%d pods of the preemptor have a node while %d victims run", placed, running)
				}
				if running > 0 {
					return fmt.Sprintf("%d run", running)
				}
				return ""
			})
			for _, name := range victim.names() {
				e.LetGo(name)
			}
			e.waitRunning(urgent)
		})
	}
}

// waitTold waits until all victims have been seen terminating with the phrases in their status. If
// they are a group, its status must have the phrases too. waitTold maps the name of a victim to the
// end of its grace period.
func (e *env) waitTold(victim unitSpec, grace int64, phrases []string) map[string]time.Time {
	e.Helper()
	ends := map[string]time.Time{}
	groupTold := victim.gang == 0
	e.Eventually("the victims are on their way out and are told why", func(ctx context.Context) string {
		left := ""
		for _, name := range victim.names() {
			if _, told := ends[name]; told {
				continue
			}
			pod := e.Find(ctx, name)
			if wrong := toldAndLeaving(pod, grace, phrases); wrong != "" {
				left = name + ": " + wrong
				continue
			}
			ends[name] = pod.DeletionTimestamp.Time
		}
		if !groupTold {
			wrong := e.groupTold(ctx, victim.name, phrases)
			if groupTold = wrong == ""; !groupTold {
				left = "the group: " + wrong
			}
		}
		return left
	})
	return ends
}

// hadTime returns the number of running victims, and the number of placed preemptors. The test
// fails if a victim ended before the end of its grace period.
func (e *env) hadTime(pods []corev1.Pod, ends map[string]time.Time) (running, placed int) {
	e.Helper()
	for _, pod := range pods {
		switch {
		case pod.Labels["unit"] == "urgent" && pod.Spec.NodeName != "":
			placed++
		case pod.Labels["unit"] == "urgent":
		case pod.Status.Phase == corev1.PodRunning:
			running++
		default:
			ended := pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt
			if ended.Time.Before(ends[pod.Name]) {
				e.Fatalf("%s ended at %v, before %v", pod.Name, ended, ends[pod.Name])
			}
		}
	}
	return running, placed
}

// toldAndLeaving describes what is wrong with a victim that must be terminating and have the
// phrases in its status. It returns "" if nothing is wrong.
func toldAndLeaving(pod *corev1.Pod, grace int64, phrases []string) string {
	if pod == nil || pod.DeletionTimestamp == nil {
		return "it is not on its way out"
	}
	if got := ptr.Deref(pod.DeletionGracePeriodSeconds, 0); got != grace {
		return fmt.Sprintf("it has %d seconds, want %d", got, grace)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			if c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonPreemptionByScheduler || !stage.Mentions(c.Message, phrases) {
				return fmt.Sprintf("its condition is %s, %s: %s", c.Status, c.Reason, c.Message)
			}
			return ""
		}
	}
	return "it has no such condition"
}

// groupTold describes what is wrong with the condition DisruptionTarget of the victims' group. It
// returns "" if nothing is wrong.
func (e *env) groupTold(ctx context.Context, name string, phrases []string) string {
	c := e.Condition(ctx, name, v1alpha1.ConditionDisruptionTarget)
	switch {
	case c == nil:
		return "it has no such condition"
	case c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonPreemptionByScheduler || !stage.Mentions(c.Message, phrases):
		return strings.Join([]string{"its condition is", string(c.Status), c.Reason, c.Message}, " ")
	}
	return ""
}
