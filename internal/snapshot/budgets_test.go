package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// unreadable returns a budget with an invalid operator in its selector.
func unreadable(namespace string) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "broken"}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles"}}}
	pdb.Status.DisruptionsAllowed = 5
	return pdb
}

// TestBudgetThatCannotBeRead checks that a budget with an invalid selector guards all pods of its
// namespace until the selector is valid.
func TestBudgetThatCannotBeRead(t *testing.T) {
	t.Parallel()
	index, pdb := newBudgetIndex(), unreadable("ns")
	bare, elsewhere := pod("bare", "", "1", 0), pod("elsewhere", "", "1", 0)
	elsewhere.Namespace = "other"
	guards := func(pod *corev1.Pod) (allowed int32, guarded bool) {
		of := index.of(pod)
		if len(of) == 0 {
			return 0, false
		}
		return index.list[of[0]].Allowed, true
	}
	index.level([]*policyv1.PodDisruptionBudget{pdb})
	if allowed, guarded := guards(bare); !guarded || allowed != 0 {
		t.Errorf("A pod of its namespace is guarded: %t; %d may go", guarded, allowed)
	}
	if _, guarded := guards(elsewhere); guarded {
		t.Error("A pod of another namespace is guarded")
	}
	mended := pdb.DeepCopy()
	mended.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	changes := index.level([]*policyv1.PodDisruptionBudget{mended})
	if _, guarded := guards(bare); guarded || !changes.concern(bare) {
		t.Errorf("Once it is mended the pod is guarded: %t", guarded)
	}
}

// TestDecidedInSpiteOfABudget checks that a decision is possible despite a budget with an invalid
// selector. The pods of this budget are evicted last.
func TestDecidedInSpiteOfABudget(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.addNodes("node-0", "node-1")
	guarded := on(pod("guarded", "", "4", 0), "node-0")
	guarded.Namespace = "other"
	s.addPods(guarded, on(pod("free", "", "4", 5), "node-1"))
	if err := s.level(); err != nil {
		t.Fatal(err)
	}
	infos, err := s.snapshot.List()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.kept.Level(infos, []*policyv1.PodDisruptionBudget{unreadable("other")}); err != nil {
		t.Fatal(err)
	}
	classes, err := ClassesOf([]*corev1.Pod{pod("p", "", "4", 10)}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := s.kept.View(nil)
	d, err := core.Decide(v.Cluster, &core.Preemptor{
		Namespace: "ns", Name: "p", UID: "uid-p", Priority: 10, MinCount: 1, Classes: v.Describe(classes, countsAll{}),
	}, core.Arithmetic{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Outcome != core.Preempts || len(d.Victims) != 1 || d.Victims[0].Name != "free" {
		t.Errorf("%s: %s, of %+v", d.Outcome, d.Message, d.Victims)
	}
	if pods := v.Victims(&d); len(pods) != 1 || pods[0].UID != "uid-free" {
		t.Errorf("The victims are known as %v", pods)
	}
}

// TestBudgetsOfUnreadyPods checks which budgets count for the eviction of a pod, as in the Eviction
// API: a budget that allows each eviction of a pod that is not ready does not count for such a pod.
func TestBudgetsOfUnreadyPods(t *testing.T) {
	t.Parallel()
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	unready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}}
	starting := corev1.PodStatus{Phase: corev1.PodPending}
	for name, tt := range map[string]struct {
		status           corev1.PodStatus
		policy           *policyv1.UnhealthyPodEvictionPolicyType
		healthy, desired int32
		counts           bool
	}{
		"ready":                            {status: ready, healthy: 3, desired: 2, counts: true},
		"ready, AlwaysAllow":               {status: ready, policy: ptr.To(policyv1.AlwaysAllow), counts: true},
		"unready, AlwaysAllow":             {status: unready, policy: ptr.To(policyv1.AlwaysAllow)},
		"unready, enough are healthy":      {status: unready, healthy: 2, desired: 2},
		"unready, IfHealthyBudget":         {status: unready, policy: ptr.To(policyv1.IfHealthyBudget), healthy: 2, desired: 2},
		"unready, too few are healthy":     {status: unready, healthy: 1, desired: 2, counts: true},
		"unready, none has to be healthy":  {status: unready, healthy: 1, desired: 0, counts: true},
		"not started, too few are healthy": {status: starting, healthy: 1, desired: 2},
		"without a status":                 {counts: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			index := newBudgetIndex()
			pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}}
			pdb.Spec.Selector = &metav1.LabelSelector{}
			p := pod("p", "", "1", 0)
			p.Status = tt.status
			index.level([]*policyv1.PodDisruptionBudget{pdb})
			changed := pdb.DeepCopy()
			changed.Spec.UnhealthyPodEvictionPolicy = tt.policy
			changed.Status.CurrentHealthy, changed.Status.DesiredHealthy = tt.healthy, tt.desired
			changes := index.level([]*policyv1.PodDisruptionBudget{changed})
			if counts := len(index.brokenBy(p, index.of(p))) > 0; counts != tt.counts {
				t.Errorf("The budget counts: %t", counts)
			}
			if !tt.counts && tt.status.Phase == corev1.PodRunning && !changes.concern(p) {
				t.Error("The pod is not matched again after the change of the budget")
			}
		})
	}
}
