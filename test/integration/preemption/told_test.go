package preemption

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestVictimsAreToldAndHaveTheirTime: a victim's grace period is its own, and both sides say who, whom, and by what
// rule.
func TestVictimsAreToldAndHaveTheirTime(t *testing.T) {
	t.Parallel()
	// The finalizer keeps them for a look at what is said of them; the grace period has begun by then.
	const grace = 4
	cases := map[string]struct{ victim, preemptor int }{
		"a pod for a pod":      {},
		"a pod for a gang":     {preemptor: 2},
		"a group for a pod":    {victim: 2},
		"a group for a gang":   {victim: 2, preemptor: 2},
		"a single-pod group":   {victim: 1},
		"a gang of three pods": {victim: 3, preemptor: 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.addNodes("a", 1, 12)
			victim := unitSpec{name: "victim", cpus: 12 / int64(max(c.victim, 1)), priority: "low", gang: c.victim, held: true, grace: grace}
			urgent := unitSpec{name: "urgent", cpus: 12 / int64(max(c.preemptor, 1)), priority: "mid", gang: c.preemptor}
			e.createRunning(victim)
			e.create(urgent)
			kind := map[bool]string{true: "PodGroup", false: "Pod"}
			phrases := []string{
				"preempted by " + kind[c.preemptor > 0] + " " + e.ns + "/urgent (priority 500)", "LowerPriority", "priority is 100",
			}
			for _, pod := range victim.names() {
				e.Eventually(pod+" is on its way out and is told why", func(ctx context.Context) string {
					return e.toldAndLeaving(ctx, pod, grace, phrases)
				})
				e.waitEvent(pod, "Preempted", "urgent", phrases...)
			}
			if c.victim > 0 {
				e.Eventually("the group is told", func(ctx context.Context) string { return e.groupTold(ctx, "victim", phrases) })
				e.waitEvent("victim", "Preempted", "urgent", phrases...)
			}
			e.waitEvent("urgent", "Preempting", "", e.ns+"/victim")
			// Its time is up when nothing of it runs any more.
			e.Eventually("the victims have had their time", func(ctx context.Context) string {
				pods := e.podsIn(ctx)
				running, placed := hadTime(t, pods)
				if running > 0 && placed > 0 {
					t.Fatalf("%d pods of the preemptor have a node while %d victims run", placed, running)
				}
				if running > 0 {
					return fmt.Sprintf("%d run", running)
				}
				return ""
			})
			for _, name := range victim.names() {
				e.letGo(t.Context(), name)
			}
			e.waitRunning(urgent)
		})
	}
}

// hadTime counts the victims that run and the pods of the preemptor that have a node. Nobody is to end early.
func hadTime(t *testing.T, pods []corev1.Pod) (running, placed int) {
	t.Helper()
	for _, pod := range pods {
		switch {
		case pod.Labels["unit"] == "urgent" && pod.Spec.NodeName != "":
			placed++
		case pod.Labels["unit"] == "urgent":
		case pod.Status.Phase == corev1.PodRunning:
			running++
		default:
			ended := pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt
			if ended.Time.Before(pod.DeletionTimestamp.Time) {
				t.Fatalf("%s ended at %v, before %v", pod.Name, ended, pod.DeletionTimestamp)
			}
		}
	}
	return running, placed
}

// toldAndLeaving looks at a victim.
func (e *env) toldAndLeaving(ctx context.Context, name string, grace int64, phrases []string) string {
	pod := e.pod(ctx, name)
	if pod == nil || pod.DeletionTimestamp == nil {
		return "it is not on its way out"
	}
	if got := ptr.Deref(pod.DeletionGracePeriodSeconds, 0); got != grace {
		return fmt.Sprintf("it has %d seconds, want %d", got, grace)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			if c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonPreemptionByScheduler || !mentions(c.Message, phrases) {
				return fmt.Sprintf("its condition is %s, %s: %s", c.Status, c.Reason, c.Message)
			}
			return ""
		}
	}
	return "it has no such condition"
}

// groupTold looks at the group of victims.
func (e *env) groupTold(ctx context.Context, name string, phrases []string) string {
	var pg v1alpha1.PodGroup
	if err := e.objects.Get(ctx, client.ObjectKey{Namespace: e.ns, Name: name}, &pg); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionDisruptionTarget)
	switch {
	case c == nil:
		return "it has no such condition"
	case c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonPreemptionByScheduler || !mentions(c.Message, phrases):
		return strings.Join([]string{"its condition is", string(c.Status), c.Reason, c.Message}, " ")
	}
	return ""
}
