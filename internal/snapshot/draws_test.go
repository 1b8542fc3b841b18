package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// guard is a stage with one budget that selects three ready pods on different nodes.
type guard struct {
	*stage
	pods []*corev1.Pod
	pdb  *policyv1.PodDisruptionBudget
}

func newGuard(t *testing.T, healthy int32) *guard {
	t.Helper()
	g := &guard{stage: newStage(t)}
	for _, name := range []string{"a", "b", "c"} {
		g.addNodes("node-" + name)
		p := on(pod(name, "", "1", 0), "node-"+name)
		p.Labels["app"] = "x"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		g.addPods(p)
		g.pods = append(g.pods, p)
	}
	g.says(healthy, 1)
	return g
}

// says sets the status of the budget, as the disruption controller does.
func (g *guard) says(healthy, allowed int32, counted ...string) {
	g.pdb = &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "guard"}}
	g.pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	g.pdb.Status = policyv1.PodDisruptionBudgetStatus{
		CurrentHealthy: healthy, DesiredHealthy: healthy - allowed, ExpectedPods: 3, DisruptionsAllowed: allowed, DisruptedPods: map[string]metav1.Time{},
	}
	for _, name := range counted {
		g.pdb.Status.DisruptedPods[name] = metav1.Now()
	}
}

// allowed returns the number of allowed disruptions in the core.
func (g *guard) allowed() int32 {
	g.t.Helper()
	if err := g.cache.UpdateSnapshot(klog.Background(), g.snapshot); err != nil {
		g.t.Fatal(err)
	}
	infos, err := g.snapshot.List()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.kept.Level(infos, []*policyv1.PodDisruptionBudget{g.pdb}); err != nil {
		g.t.Fatal(err)
	}
	return g.kept.View(nil).Cluster.Budgets[0].Allowed
}

// order makes a pod terminating without a deletion timestamp, or ends this state.
func (g *guard) order(i int, goes bool) {
	g.facts.disrupted[g.pods[i].UID] = goes
	g.kept.NodeChanged(g.pods[i].Spec.NodeName)
}

func (g *guard) terminate(i int) {
	g.t.Helper()
	p := g.pods[i].DeepCopy()
	p.DeletionTimestamp = &metav1.Time{}
	if err := g.cache.UpdatePod(klog.Background(), g.pods[i], p); err != nil {
		g.t.Fatal(err)
	}
	g.pods[i] = p
}

func (g *guard) remove(i int) {
	g.t.Helper()
	if err := g.cache.RemovePod(klog.Background(), g.pods[i]); err != nil {
		g.t.Fatal(err)
	}
}

// TestBudgetOfThoseOnTheirWay checks that terminating pods reduce the allowed disruptions of a
// budget until the status of the budget includes them.
func TestBudgetOfThoseOnTheirWay(t *testing.T) {
	t.Parallel()
	type step struct {
		what string
		do   func(g *guard)
		want int32
	}
	nothing := func(*guard) {}
	ordered := step{"a pod is ordered to go", func(g *guard) { g.order(0, true) }, 0}
	cases := map[string]struct {
		healthy int32
		steps   []step
	}{
		"a pod that is ordered to go, until it has gone": {3, []step{
			{"nothing has happened", nothing, 1}, ordered,
			{"it is terminating", func(g *guard) { g.terminate(0) }, 0},
			{"it has gone", func(g *guard) { g.remove(0) }, 0},
			{"everything is read anew", func(g *guard) { g.kept.Invalidate() }, 0},
			{"the status has caught up", func(g *guard) { g.says(2, 0) }, 0},
			{"another one has come for it", func(g *guard) {
				p := g.pods[0].DeepCopy()
				p.UID, p.DeletionTimestamp = "uid-next", nil
				g.addPods(p)
			}, 0},
			{"the status has caught up with that", func(g *guard) { g.says(3, 1) }, 1},
		}},
		"the status catches up while it is there": {3, []step{
			ordered, {"the status has caught up", func(g *guard) { g.terminate(0); g.says(2, 0) }, 0},
			{"another disruption is allowed", func(g *guard) { g.says(2, 1) }, 1},
			{"it has gone", func(g *guard) { g.remove(0) }, 1},
		}},
		"a status that another change has had written": {3, []step{
			ordered, {"it has not caught up", func(g *guard) { g.says(3, 1) }, 0},
		}},
		"an order that is taken back": {3, []step{ordered, {"it stays", func(g *guard) { g.order(0, false) }, 1}}},
		"two at a time": {3, []step{
			{"two are ordered to go", func(g *guard) { g.order(0, true); g.order(1, true) }, -1},
			{"the status has caught up with one", func(g *guard) { g.says(2, 0) }, -1},
		}},
		"an eviction that the API server has counted": {3, []step{
			{"it is counted", func(g *guard) { g.says(3, 0, "a"); g.terminate(0) }, 0},
			{"another one is ordered to go", func(g *guard) { g.order(1, true) }, -1},
		}},
		"a pod that has gone between two looks": {3, []step{
			{"nothing has happened", nothing, 1}, {"it has gone", func(g *guard) { g.remove(0) }, 0},
		}},
		"a node that has gone": {3, []step{
			{"nothing has happened", nothing, 1},
			{"it has gone", func(g *guard) {
				if err := g.cache.RemoveNode(klog.Background(), node("node-a", "4")); err != nil {
					g.t.Fatal(err)
				}
			}, 0},
		}},
		"pods that were terminating before": {3, []step{{"one is terminating", func(g *guard) { g.terminate(0) }, 0}}},
		"a status that counts no healthy pods": {0, []step{
			{"nothing has happened", nothing, 1}, ordered, {"it has gone", func(g *guard) { g.remove(0) }, 1},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuard(t, c.healthy)
			for _, s := range c.steps {
				s.do(g)
				if got := g.allowed(); got != s.want {
					t.Errorf("Once %s, %d may go, want %d", s.what, got, s.want)
				}
			}
		})
	}
}

// TestNothingIsLeftOfDraws checks that no counts are left after the pods and the budget are gone.
func TestNothingIsLeftOfDraws(t *testing.T) {
	t.Parallel()
	g := newGuard(t, 3)
	g.order(0, true)
	g.allowed()
	for i := range g.pods {
		g.remove(i)
	}
	g.allowed()
	if err := g.level(); err != nil {
		t.Fatal(err)
	}
	if d := g.kept.draws; len(d.byNode)+len(d.healthy)+len(d.leaving)+len(d.gone) != 0 {
		t.Errorf("Left are %+v", d)
	}
}
