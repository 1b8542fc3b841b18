package scheduling

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// robbers maps a description to a function that removes two of the seven CPUs of node "a" from a
// waiting preemptor. Resized pods have other tests, because the API server rejects a resize on
// simulated nodes.
var robbers = map[string]func(*env){
	"a higher priority": func(e *env) { e.create(podSpec{name: "robber", cpus: 2, priority: "higher", on: "a"}) },
	"a pod of another scheduler": func(e *env) {
		e.create(podSpec{name: "robber", cpus: 2, priority: "higher", scheduler: "another", change: func(pod *corev1.Pod) {
			pod.Spec.NodeName = e.NodeName("a")
		}})
	},
	"a node that shrinks": func(e *env) {
		patch := []byte(`{"status":{"allocatable":{"cpu":"5"}}}`)
		if _, err := e.Kube.CoreV1().Nodes().Patch(e.Context(), e.NodeName("a"), types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			e.Fatalf("patch node a: %v", err)
		}
	},
}

// lingering returns a victim that terminates slowly.
func lingering(name string) podSpec {
	return podSpec{name: name, cpus: 2, priority: "low", on: "a", grace: 600, change: stage.Hold}
}

// beginToPreempt creates a preemptor with two victims on node "a": a single pod, or a gang with one
// member. One victim is gone when it returns, and the other one is still terminating. It returns
// the name of the preempting pod.
func (e *env) beginToPreempt(gang bool) (member string) {
	e.Helper()
	e.createRunning(podSpec{name: "stays", cpus: 2, priority: "higher", on: "a"}, lingering("victim-0"), lingering("victim-1"))
	member = "urgent"
	if gang {
		member = "urgent-0"
		e.gang(stage.Group{Name: "urgent", MinCount: 1, Priority: "high"}, 1, podSpec{cpus: 5})
	} else {
		e.create(podSpec{name: "urgent", cpus: 5, priority: "high"})
	}
	e.Eventually("both victims are leaving", func(ctx context.Context) string {
		for _, name := range []string{"victim-0", "victim-1"} {
			if pod := e.Find(ctx, name); pod == nil || pod.DeletionTimestamp == nil {
				return name + " is not"
			}
		}
		return ""
	})
	e.ends("victim-0")
	return member
}

// ends completes the termination of a pod immediately.
func (e *env) ends(name string) {
	e.Helper()
	e.LetGo(name)
	now := int64(0)
	err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if client.IgnoreNotFound(err) != nil {
		e.Fatalf("delete pod %s: %v", name, err)
	}
	e.Gone(name)
}

// waitTold waits until the condition PodScheduled of a pod contains a text. It returns the whole
// message.
func (e *env) waitTold(name, what string) (told string) {
	e.Helper()
	e.Eventually(name+" is told "+what, func(ctx context.Context) string {
		told = ""
		if pod := e.Find(ctx, name); pod != nil {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled {
					told = c.Message
				}
			}
		}
		if !strings.Contains(told, what) {
			return fmt.Sprintf("it is told %q", told)
		}
		return ""
	})
	return told
}

// eachRobber runs a test for each element of robbers: with a single pod as the preemptor, and with
// a gang.
func eachRobber(t *testing.T, run func(e *env, rob func(*env), gang bool)) {
	t.Helper()
	for way, rob := range robbers {
		for kind, gang := range map[string]bool{"a pod": false, "a gang": true} {
			t.Run(way+", "+kind, func(t *testing.T) {
				t.Parallel()
				run(newEnv(t, stage.GroupAPIs(t)[0]), rob, gang)
			})
		}
	}
}

// TestRobbedOfOneVictimsRoom tests a preemptor whose reserved room becomes too small while a victim
// terminates. The preemptor must evict other pods at once, instead of waiting for the victim.
func TestRobbedOfOneVictimsRoom(t *testing.T) {
	t.Parallel()
	eachRobber(t, func(e *env, rob func(*env), gang bool) {
		e.AddNodes(7, "a")
		e.AddNodes(5, "b")
		e.createRunning(podSpec{name: "dearer", cpus: 5, priority: "mid", on: "b"})
		member := e.beginToPreempt(gang)
		rob(e)
		e.waitRunning(member)
		if node := e.nodeOf(member); node != "b" {
			e.Errorf("It runs on %s", node)
		}
		if e.Find(e.Context(), "victim-1") == nil {
			e.Error("The second victim has gone")
		}
		e.LetGo("victim-1")
	})
}

// TestRoomThatIsNoUse tests a pod with the priority of the preemptor. The message of the pod must
// name the reservation that blocks the pod. When the reserved room becomes too small for the
// preemptor, the pod must get the room.
func TestRoomThatIsNoUse(t *testing.T) {
	t.Parallel()
	eachRobber(t, func(e *env, rob func(*env), gang bool) {
		e.AddNodes(7, "a")
		e.beginToPreempt(gang)
		e.create(podSpec{name: "equal", cpus: 1, priority: "high"})
		told := e.waitTold("equal", fmt.Sprintf("room on node %s is reserved for %s/urgent (priority 1000)", e.NodeName("a"), e.Namespace))
		if strings.Contains(told, "short of") {
			e.Errorf("It is told %q", told)
		}
		rob(e)
		e.waitRunning("equal")
		if e.Find(e.Context(), "victim-1") == nil {
			e.Error("The second victim has gone")
		}
		e.LetGo("victim-1")
	})
}

// TestAffinityToALeavingPod tests a waiting pod with affinity to a terminating pod on a cordoned
// node. The waiting pod matches its own affinity, so it fits on another node once the terminating
// pod is gone. The scheduler must then retry the waiting pod, although another pod on the cordoned
// node is still terminating.
func TestAffinityToALeavingPod(t *testing.T) {
	t.Parallel()
	for kind, gang := range map[string]bool{"a pod": false, "a gang": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, stage.GroupAPIs(t)[0])
			e.AddNodes(4, "a", "b")
			alike := podSpec{name: "like", cpus: 1, priority: "low", on: "a", grace: 600, labels: map[string]string{"app": "x"}, change: stage.Hold}
			e.createRunning(alike, lingering("lingers"))
			cordon := []byte(`{"spec":{"unschedulable":true}}`)
			if _, err := e.Kube.CoreV1().Nodes().Patch(e.Context(), e.NodeName("a"), types.MergePatchType, cordon, metav1.PatchOptions{}); err != nil {
				e.Fatalf("cordon node a: %v", err)
			}
			e.remove("like")
			e.remove("lingers")
			next := podSpec{name: "next", cpus: 1, priority: "high", labels: map[string]string{"app": "x"}, change: func(pod *corev1.Pod) {
				pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
						TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
					}},
				}}
			}}
			member := "next"
			if gang {
				member = "next-0"
				e.gang(stage.Group{Name: "next", MinCount: 1, Priority: "high"}, 1, next)
			} else {
				e.create(next)
			}
			e.waitTold(member, "waits for "+e.Namespace+"/like on "+e.NodeName("a"))
			e.ends("like")
			e.waitRunning(member)
			e.LetGo("lingers")
		})
	}
}
