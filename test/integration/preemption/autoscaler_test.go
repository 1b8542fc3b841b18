package preemption

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// wanted returns the number of CPUs that a cluster autoscaler would add: the sum of the requests of
// all pods with the reason Unschedulable.
func (e *env) wanted(ctx context.Context) int64 {
	e.Helper()
	var sum int64
	for _, pod := range e.AllPods(ctx) {
		if c := placing(&pod); pod.Spec.NodeName == "" && c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			sum += pod.Spec.Containers[0].Resources.Requests.Cpu().Value()
		}
	}
	return sum
}

// waitWanted waits until wanted returns a number of CPUs.
func (e *env) waitWanted(cpus int64) {
	e.Helper()
	e.Eventually(fmt.Sprintf("an autoscaler sees %d CPUs", cpus), func(ctx context.Context) string {
		if got := e.wanted(ctx); got != cpus {
			return fmt.Sprintf("it sees %d", got)
		}
		return ""
	})
}

// placing returns the condition PodScheduled of a pod, or nil.
func placing(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c
		}
	}
	return nil
}

// settled waits until the scheduler has written no status of a pod for some seconds. It returns the
// number of these writes so far.
func (e *env) settled() int {
	e.Helper()
	writes := func() int { return len(e.proxy.Calls(e.statuses())) }
	before, since := writes(), time.Now()
	e.Eventually("nothing is written of pods any more", func(context.Context) string {
		if now := writes(); now != before {
			before, since = now, time.Now()
		}
		// The interval must be longer than the scheduler's interval between two messages for one
		// member.
		if time.Since(since) < 12*time.Second {
			return "something was a moment ago"
		}
		return ""
	})
	return before
}

// saying waits until the condition of each pod of a unit contains the phrases. It maps the names of
// the pods to the transition times of their conditions.
func (e *env) saying(name string, phrases ...string) map[string]metav1.Time {
	e.Helper()
	var since map[string]metav1.Time
	e.Eventually(name+" says why", func(ctx context.Context) string {
		since = map[string]metav1.Time{}
		for _, pod := range e.unit(ctx, name) {
			condition := placing(&pod)
			switch {
			case condition == nil:
				return pod.Name + " says nothing"
			case !stage.Mentions(condition.Message, phrases), strings.Contains(condition.Message, "another member"):
				return fmt.Sprintf("%s says %q, want %q", pod.Name, condition.Message, phrases)
			case condition.ObservedGeneration != pod.Generation:
				return fmt.Sprintf("%s says so of generation %d, and is at %d", pod.Name, condition.ObservedGeneration, pod.Generation)
			}
			since[pod.Name] = condition.LastTransitionTime
		}
		return ""
	})
	return since
}

// unplaced describes a pod of a unit whose condition PodScheduled is not true. It returns "" if the
// condition of every pod is true.
func (e *env) unplaced(ctx context.Context, name string) string {
	e.Helper()
	for _, pod := range e.unit(ctx, name) {
		if c := placing(&pod); c == nil || c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("%s says %+v", pod.Name, c)
		}
	}
	return ""
}

// TestAutoscalerSeesAllOfAGang checks that all members of a gang without room have the reason
// Unschedulable. After the gang is placed, no member may have it.
func TestAutoscalerSeesAllOfAGang(t *testing.T) {
	t.Parallel()
	const size, cpus = 6, 4
	cases := map[string]struct {
		victim  int
		surplus int
		phrases []string
	}{
		"there is no room":              {phrases: []string{"needs 4 cpu"}},
		"there is none for the surplus": {surplus: 2, phrases: []string{"needs 4 cpu"}},
		"room is being made":            {victim: size, phrases: []string{"gang of 6 fits on", "once "}},
	}
	for name, c := range cases {
		each(t, name, true, func(e *env) {
			e.addNodes("a", 2, cpus*3/2)
			victim := unitSpec{name: "victim", cpus: cpus, priority: "low", gang: c.victim, held: true}
			if c.victim > 0 {
				e.addNodes("b", 2, 2*cpus)
				e.createRunning(victim)
			}
			urgent := unitSpec{name: "urgent", cpus: cpus, priority: "mid", gang: size, surplus: c.surplus}
			e.create(urgent)
			e.waitWanted(size * cpus)
			e.saying("urgent", c.phrases...)
			if c.victim > 0 {
				e.LetGo(victim.names()...)
			} else {
				e.addNodes("c", 1, size*cpus)
			}
			e.waitRunning(urgent)
			e.Eventually("all say that they are placed", func(ctx context.Context) string { return e.unplaced(ctx, "urgent") })
			e.Never("nothing stale is said", func(ctx context.Context) string { return e.unplaced(ctx, "urgent") })
		})
	}
}

// TestEachIsToldOnce counts the status messages for members of a waiting gang. Each member must get
// one message, and a new one only if the message changes. The transition time must not change. The
// messages contain the number of nodes in the cluster, so the test does not run in parallel with
// others.
func TestEachIsToldOnce(t *testing.T) {
	const size, cpus = 6, 4
	e := newEnv(t, stage.ReprieveGroups())
	e.addNodes("a", 1, cpus)
	// Wait until the scheduler has removed the nodes of earlier tests from its cache.
	e.KnowsNodes()
	urgent := unitSpec{name: "urgent", cpus: cpus, priority: "mid", gang: size}
	e.create(urgent)
	e.waitWanted(size * cpus)
	since := e.saying("urgent", "needs 4 cpu", "; 1 ")
	first := e.settled()
	// Some members may get a second message: the leader may have planned once before all members
	// existed.
	if first > size+3 {
		e.Errorf("%d statuses were written of %d members", first, size)
	}
	e.addNodes("b", 1, cpus)
	e.Eventually("they say what has changed", func(ctx context.Context) string {
		for _, pod := range e.unit(ctx, "urgent") {
			if c := placing(&pod); !strings.Contains(c.Message, "; 2 ") {
				return pod.Name + " says " + c.Message
			}
		}
		return ""
	})
	for name, at := range e.saying("urgent", "needs 4 cpu", "; 2 ") {
		if before := since[name]; !at.Equal(&before) {
			e.Errorf("%s says so since %v, and did since %v", name, at, before)
		}
	}
	// A new node has a taint, which is removed later. Each of the two changes may cause a message.
	if n := e.settled() - first; n > 3*size {
		e.Errorf("%d statuses were written of %d members", n, size)
	}
}

// TestAutoscalerSeesWhatRoomWouldHelp tests gangs that cannot use a new node, because they lack a
// member or their PodGroup. Their pods must not have the reason Unschedulable, even if they had it
// before.
func TestAutoscalerSeesWhatRoomWouldHelp(t *testing.T) {
	t.Parallel()
	const size, cpus = 4, 4
	cases := map[string]struct {
		end    func(e *env)
		reason string
	}{
		"a member is deleted": {
			end: func(e *env) {
				if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), "urgent-1", metav1.DeleteOptions{}); err != nil {
					e.Fatal(err)
				}
			},
			reason: v1alpha1.ReasonNotEnoughMembers,
		},
		"the PodGroup is deleted": {
			end: func(e *env) {
				e.RemoveGroup("urgent")
				e.LetGroupGo("urgent")
			},
			reason: "PodGroupNotFound",
		},
	}
	for name, c := range cases {
		each(t, name, true, func(e *env) {
			e.addNodes("a", 1, cpus)
			urgent := unitSpec{name: "urgent", cpus: cpus, priority: "mid", gang: size}
			e.CreateGroup(stage.Group{Name: "urgent", MinCount: size, Priority: "mid"})
			for i := range size - 1 {
				e.Create(e.build(urgent, i))
			}
			e.Never("it asks for no nodes", func(ctx context.Context) string {
				if n := e.wanted(ctx); n > 0 {
					return fmt.Sprintf("it asks for %d CPUs", n)
				}
				return ""
			})
			e.Create(e.build(urgent, size-1))
			e.waitWanted(size * cpus)
			c.end(e)
			e.waitWanted(0)
			for _, pod := range e.unit(e.Context(), "urgent") {
				if condition := placing(&pod); pod.DeletionTimestamp == nil && (condition.Status != corev1.ConditionFalse || condition.Reason != c.reason) {
					e.Errorf("%s says %s: %s, want the reason %s", pod.Name, condition.Reason, condition.Message, c.reason)
				}
			}
		})
	}
}

// TestPlacedAtOnceSaysNothing checks that the scheduler writes no message to the status of members
// if the gang finds room at once.
func TestPlacedAtOnceSaysNothing(t *testing.T) {
	t.Parallel()
	each(t, "a gang of 24", true, func(e *env) {
		const size = 24
		e.addNodes("a", 3, 8)
		var mu sync.Mutex
		said := map[string]string{}
		e.FollowPods("", func(_ watch.EventType, pod *corev1.Pod) {
			mu.Lock()
			defer mu.Unlock()
			if c := placing(pod); c != nil && c.Status == corev1.ConditionFalse {
				said[pod.Name] = c.Reason + ": " + c.Message
			}
		})
		urgent := unitSpec{name: "urgent", cpus: 1, priority: "mid", gang: size}
		e.create(urgent)
		e.waitRunning(urgent)
		e.Never("no status is written", func(context.Context) string {
			for _, call := range e.proxy.Calls(e.statuses()) {
				// Ignore other writes. The scheduler also writes the nominated node of a pod that
				// has waited at Permit for a second.
				if strings.Contains(string(call.Body), "PodScheduled") {
					return call.Name + ": " + string(call.Body)
				}
			}
			return ""
		})
		mu.Lock()
		defer mu.Unlock()
		if len(said) > 0 {
			e.Errorf("Members have said that they are not scheduled: %v", said)
		}
	})
}

// TestSinglePodHearsOfNoGang checks that the message for a single pod does not mention gangs.
func TestSinglePodHearsOfNoGang(t *testing.T) {
	t.Parallel()
	each(t, "", false, func(e *env) {
		e.addNodes("a", 1, 4)
		e.create(unitSpec{name: "big", cpus: 8, priority: "mid"})
		e.waitWanted(8)
		pod := e.Find(e.Context(), "big")
		if c := placing(pod); strings.Contains(c.Message, "gang") || strings.Contains(c.Message, "member") {
			e.Errorf("It says %q", c.Message)
		}
		for _, event := range e.EventsOf(e.Context(), "big", "FailedScheduling") {
			if strings.Contains(event.Message, "gang") || strings.Contains(event.Message, "member") {
				e.Errorf("It is told %q", event.Message)
			}
		}
	})
}
