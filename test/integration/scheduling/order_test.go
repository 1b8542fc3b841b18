package scheduling

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// addZone creates nodes in a zone and returns their short names.
func (e *env) addZone(zone string, count int, cpus int64) []string {
	e.Helper()
	shorts := make([]string, count)
	for i := range shorts {
		shorts[i] = fmt.Sprintf("%s%d", zone, i)
		node := stage.NewNode(e.Namespace, shorts[i], cpus)
		node.Labels[corev1.LabelTopologyZone] = e.Namespace + "-" + zone
		e.Create(node)
	}
	e.WaitReady(shorts...)
	return shorts
}

// fill creates a pod of low priority for each CPU of the nodes, and waits until the pods run.
func (e *env) fill(nodes []string, cpus int64, change func(*corev1.Pod)) {
	e.Helper()
	var specs []podSpec
	for _, n := range nodes {
		specs = append(specs, podSpec{name: "low-" + n, on: n, cpus: 1, priority: "low", change: change}.times(int(cpus))...)
	}
	e.createRunning(specs...)
}

func role(name string) map[string]string { return map[string]string{"role": name} }

func toRole(key, name string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: role(name)}}}
}

// near returns a function that adds a pod affinity: the pod must run in a domain with pods of the
// named role. key is the node label of the domain.
func near(key, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: toRole(key, name)}}
	}
}

// apart returns a function that adds a pod anti-affinity: the pod must not run in a domain with
// pods of the named role. key is the node label of the domain.
func apart(key, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: toRole(key, name)}}
	}
}

// spread returns a function that adds a topology spread constraint: the pods of the named role must
// be spread over the domains. key is the node label of the domain.
func spread(key, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: role(name)},
		})
	}
}

// zones returns the number of pods with a node in each zone. It counts the pods whose group has the
// given name.
func (e *env) zones(ctx context.Context, prefix string) map[string]int {
	e.Helper()
	out := make(map[string]int)
	for _, pod := range e.pods(ctx, prefix) {
		node, err := e.Kube.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			e.Fatal(err)
		}
		out[node.Labels[corev1.LabelTopologyZone]]++
	}
	return out
}

// TestSpreadGang tests a gang whose members must be spread over zones: on empty nodes, and with a
// preemption.
func TestSpreadGang(t *testing.T) {
	t.Parallel()
	for name, isFull := range map[string]bool{"on empty nodes": false, "with victims": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, stage.ReprieveGroups())
			var nodes []string
			for _, zone := range []string{"a", "b", "c"} {
				nodes = append(nodes, e.addZone(zone, 1, 2)...)
			}
			if isFull {
				e.fill(nodes, 2, nil)
			}
			e.gang(stage.Group{Name: "g", MinCount: 6, Priority: "high"}, 6, podSpec{cpus: 1, labels: role("g"), change: spread(corev1.LabelTopologyZone, "g")})
			e.waitBound("g", 6)
			for zone, n := range e.zones(t.Context(), "g") {
				if n != 2 {
					t.Errorf("%d members are in zone %s, want 2", n, zone)
				}
			}
		})
	}
}

// TestGangInOneZone tests a gang of 40 members that must run in one zone. The first zone in the
// alphabet is too small.
func TestGangInOneZone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.addZone("a", 2, 2)
	e.addZone("b", 20, 2)
	e.gang(stage.Group{Name: "g", MinCount: 40, Priority: "high"}, 40, podSpec{cpus: 1, labels: role("g"), change: near(corev1.LabelTopologyZone, "g")})
	e.waitBound("g", 40)
	if zones := e.zones(t.Context(), "g"); len(zones) != 1 {
		t.Errorf("The members are in %v", zones)
	}
}

// TestDriverAndWorkers tests workers that must run in the zone of their driver. The driver is
// created after the workers. The gang must preempt in one zone.
func TestDriverAndWorkers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.addZone("a", 2, 2)
	e.fill(e.addZone("b", 3, 3), 3, nil)
	e.CreateGroup(stage.Group{Name: "g", MinCount: 9, Priority: "high"})
	e.create(podSpec{name: "g-worker", group: "g", cpus: 1, priority: "high", labels: role("worker"), change: near(corev1.LabelTopologyZone, "driver")}.times(8)...)
	e.create(podSpec{name: "g-driver", group: "g", cpus: 1, priority: "high", labels: role("driver")})
	e.waitBound("g", 9)
	if zones := e.zones(t.Context(), "g"); len(zones) != 1 {
		t.Errorf("The members are in %v", zones)
	}
}

// TestOneMemberPerHost tests members that must run on different nodes. One pod must be evicted on
// each node.
func TestOneMemberPerHost(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.fill(e.addZone("a", 4, 2), 2, nil)
	e.gang(stage.Group{Name: "g", MinCount: 4, Priority: "high"}, 4, podSpec{cpus: 1, labels: role("g"), change: apart(corev1.LabelHostname, "g")})
	e.waitBound("g", 4)
	e.Never("no more than one pod per host goes", func(ctx context.Context) string {
		if left := len(e.Pods(ctx, "low")); left != 4 {
			return fmt.Sprintf("%d of 8 are left, want 4", left)
		}
		return ""
	})
}

// TestRulesAndBudgets tests members that must run on different nodes and be spread over zones. The
// scheduler must find victims without a PodDisruptionBudget.
func TestRulesAndBudgets(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	guarded := func(pod *corev1.Pod) { pod.Labels["guarded"] = "yes" }
	for _, zone := range []string{"a", "b"} {
		nodes := e.addZone(zone, 3, 1)
		e.fill(nodes[:1], 1, guarded)
		e.fill(nodes[1:], 1, nil)
	}
	e.guard(2, 2)
	e.gang(stage.Group{Name: "g", MinCount: 4, Priority: "high"}, 4, podSpec{cpus: 1, labels: role("g"), change: func(pod *corev1.Pod) {
		spread(corev1.LabelTopologyZone, "g")(pod)
		apart(corev1.LabelHostname, "g")(pod)
	}})
	e.waitBound("g", 4)
	e.Never("pods under the budget stay", func(ctx context.Context) string {
		left := 0
		for _, pod := range e.Pods(ctx, "low") {
			if pod.Labels["guarded"] == "yes" {
				left++
			}
		}
		if left != 2 {
			return fmt.Sprintf("%d of 2 are left", left)
		}
		return ""
	})
}
