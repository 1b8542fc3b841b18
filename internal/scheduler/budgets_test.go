package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// unreadable is a budget whose selector nobody can make sense of.
func unreadable(namespace string) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "broken"}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles"}}}
	pdb.Status.DisruptionsAllowed = 5
	return pdb
}

// TestBudgetThatCannotBeRead guards whatever it may be meant for, until it is mended.
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

// TestDecidedInSpiteOfABudget: one that cannot be read stops nobody, and its pods go last.
func TestDecidedInSpiteOfABudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, append(nodes(2, "1"), unreadable("other"))...)
	guarded, p := on(pod("guarded", "", "1", 0), "node-0"), pod("p", "", "1", 10)
	guarded.Namespace = "other"
	r.create(guarded, on(pod("free", "", "1", 5), "node-1"), p)
	d := r.decideFor(p)
	if d.Outcome != core.Preempts || len(d.Victims) != 1 || d.Victims[0].Name != "free" {
		t.Errorf("%s: %s, of %+v", d.Outcome, d.Message, d.Victims)
	}
}
