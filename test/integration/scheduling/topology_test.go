package scheduling

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const rackLabel = "example.com/rack"

// addRack creates nodes whose rack label has the same value. The value contains the test's
// namespace.
func (e *env) addRack(rack string, cpus int64, shorts ...string) {
	e.Helper()
	for _, short := range shorts {
		node := stage.NewNode(e.Namespace, short, cpus)
		node.Labels[rackLabel] = e.Namespace + "-" + rack
		e.Create(node)
	}
	e.WaitReady(shorts...)
}

// waitInRack waits until want pods of a group have a node. It checks that all nodes are in the
// rack.
func (e *env) waitInRack(group string, want int, rack string) {
	e.Helper()
	e.waitBound(group, want)
	for _, pod := range e.pods(e.Context(), group) {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		node, err := e.Kube.CoreV1().Nodes().Get(e.Context(), pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			e.Fatal(err)
		}
		if got := node.Labels[rackLabel]; got != e.Namespace+"-"+rack {
			e.Errorf("pod %s is on node %s of rack %q, want %s", pod.Name, node.Name, got, rack)
		}
	}
}

func newRacks(t *testing.T) *env {
	t.Helper()
	e := newEnv(t, stage.ReprieveGroups())
	e.addRack("r1", 4, "a1", "a2")
	e.addRack("r2", 4, "b1", "b2")
	e.AddNodes(8, "x")
	return e
}

// TestGangInOneRack checks that a gang runs in the only rack with room for all members, although
// nodes in other racks are free.
func TestGangInOneRack(t *testing.T) {
	t.Parallel()
	e := newRacks(t)
	e.createRunning(podSpec{name: "other", cpus: 4, priority: "low", on: "a1"})
	e.gang(stage.Group{Name: "train", MinCount: 2, Priority: "low", TopologyKey: rackLabel}, 2, podSpec{cpus: 4})
	e.waitInRack("train", 2, "r2")
	// No rack has room for another gang. The gang "next" cannot preempt, because no pod has a lower
	// priority. So it must wait.
	e.gang(stage.Group{Name: "next", MinCount: 2, Priority: "low", TopologyKey: rackLabel}, 2, podSpec{cpus: 4})
	e.WaitCondition("next", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, rackLabel, e.Namespace+"-r1")
	e.staysUnbound("next")
}

// TestGangClearsTheCheapestRack tests a gang that must run in one rack. The gang must preempt in
// the rack with the least important pods. A replacement of a lost member must run in the same rack,
// even after the scheduler restarts. Members past minCount may run only in this rack.
func TestGangClearsTheCheapestRack(t *testing.T) {
	e := newRacks(t)
	e.createRunning(
		podSpec{name: "mid", cpus: 4, priority: "mid", on: "a1"},
		podSpec{name: "low-0", cpus: 4, priority: "low", on: "b1"},
		podSpec{name: "low-1", cpus: 4, priority: "low", on: "b2"},
	)
	group := stage.Group{Name: "train", MinCount: 2, Priority: "high", TopologyKey: rackLabel}
	e.gang(group, 2, podSpec{cpus: 3})
	e.waitInRack("train", 2, "r2")
	e.Gone("low-0")
	e.Gone("low-1")
	// Another rack has free nodes, but the replacement must run in the rack of its gang.
	e.remove("train-0")
	e.Gone("train-0")
	e.create(podSpec{name: "train-2", group: "train", cpus: 3, priority: "high"})
	e.waitInRack("train", 2, "r2")

	scheduler := e.Run.Component(playground.Scheduler)
	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		e.Fatal(err)
	}
	e.remove("train-1")
	e.create(podSpec{name: "train-3", group: "train", cpus: 3, priority: "high"})
	if err := scheduler.Start(e.Context()); err != nil {
		e.Fatal(err)
	}
	e.Gone("train-1")
	e.waitInRack("train", 2, "r2")
	// Members past minCount may run only in the rack of their gang, and must not preempt.
	e.create(podSpec{name: "train-4", group: "train", cpus: 3, priority: "high"})
	e.create(podSpec{name: "train-5", group: "train", cpus: 1, priority: "high"})
	e.waitInRack("train", 3, "r2")
	e.waitRunning("mid")
}

// TestGangPrefersARack tests a gang that prefers to run in one rack. The gang must run in one rack
// if that does not increase the cost of its victims. A replacement of a lost member must run in the
// same rack.
func TestGangPrefersARack(t *testing.T) {
	t.Parallel()
	e := newRacks(t)
	e.createRunning(
		podSpec{name: "high", cpus: 8, priority: "high", on: "x"},
		podSpec{name: "low", cpus: 4, priority: "low", on: "a1"},
	)
	levels := []string{rackLabel}
	e.gang(stage.Group{Name: "near", MinCount: 2, Priority: "mid", PreferredKeys: levels}, 2, podSpec{cpus: 3})
	e.waitInRack("near", 2, "r2")
	e.remove("near-0")
	e.Gone("near-0")
	e.create(podSpec{name: "near-2", group: "near", cpus: 3, priority: "mid"})
	e.waitInRack("near", 2, "r2")
	e.waitRunning("low")

	// In the other rack, the victims would be the gang "near", which has a higher cost.
	e.gang(stage.Group{Name: "far", MinCount: 2, Priority: "high", PreferredKeys: levels}, 2, podSpec{cpus: 4})
	e.waitInRack("far", 2, "r1")
	e.Gone("low")
	// No node has this key. The PodGroup must report the mistake, and no pod may be evicted.
	e.gang(stage.Group{Name: "lost", MinCount: 1, Priority: "high", PreferredKeys: []string{"example.com/no-such-level"}}, 1, podSpec{cpus: 3})
	e.WaitCondition("lost", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, "example.com/no-such-level, and no node has one")
	e.staysUnbound("lost")
	e.waitBound("near", 2)
}

// TestGangWithoutRacks tests a gang whose topology key is not a label of any node. The PodGroup
// must report the unknown key. No member may start, and no pod may be evicted.
func TestGangWithoutRacks(t *testing.T) {
	t.Parallel()
	e := newRacks(t)
	e.createRunning(podSpec{name: "low", cpus: 8, priority: "low", on: "x"})
	e.gang(stage.Group{Name: "train", MinCount: 2, Priority: "high", TopologyKey: "example.com/unknown"}, 2, podSpec{cpus: 1})
	e.WaitCondition("train", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, "example.com/unknown, and no node has one")
	e.Never("nothing starts, and nothing is evicted", func(ctx context.Context) string {
		if pod := e.Find(ctx, "low"); pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			return "the pod of low priority is gone"
		}
		if n := e.bound(ctx, "train"); n > 0 {
			return fmt.Sprintf("%d members have a node", n)
		}
		return ""
	})
	// After a node gets the label, the scheduler must retry the gang.
	node, err := e.Kube.CoreV1().Nodes().Get(e.Context(), e.NodeName("a1"), metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	node.Labels["example.com/unknown"] = "here"
	if _, err := e.Kube.CoreV1().Nodes().Update(e.Context(), node, metav1.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.waitInRack("train", 2, "r1")
}
