package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// guarded makes a pod ready and gives it the labels that the PodDisruptionBudget selects.
func guarded(p *corev1.Pod) *corev1.Pod {
	p.Labels = map[string]string{"app": "guarded"}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// TestBudgetOfTwoPreemptions checks two preemptions before the disruption controller has processed
// the first. The budget allows one eviction, so the second preemption must evict other pods if it
// can.
func TestBudgetOfTwoPreemptions(t *testing.T) {
	t.Parallel()
	for name, healthy := range map[string]int32{"a budget that counts healthy pods": 2, "a budget that does not say": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}}
			pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}
			pdb.Status = policyv1.PodDisruptionBudgetStatus{CurrentHealthy: healthy, DesiredHealthy: 1, ExpectedPods: 2, DisruptionsAllowed: 1}
			r := newRig(t, append(nodes(3, "1"), runtime.Object(pdb))...)
			r.create(guarded(on(pod("g-0", "", "1", 0), "node-0")), guarded(on(pod("g-1", "", "1", 0), "node-1")), on(pod("free", "", "1", 1), "node-2"))
			r.create(pod("p-0", "", "1", 10), pod("p-1", "", "1", 10))
			r.cycle()
			r.cycle()
			if got := r.victims(); len(got) != 2 || !slices.Contains(got, "free") {
				t.Errorf("Victims are %v, want one of the two that the budget guards, and the one that it does not", got)
			}
			for i := range r.evictor.orders {
				if d := &r.evictor.orders[i].Decision; d.Score.BrokenBudgets != 0 {
					t.Errorf("%d budgets are broken: %s", d.Score.BrokenBudgets, d.Message)
				}
			}
		})
	}
}

// TestStaticPodsStay checks that a mirror pod is never a victim, whether by priority or by reclaim.
// The message to the preemptor names the rule. An ordinary pod with the same properties is a
// victim.
func TestStaticPodsStay(t *testing.T) {
	t.Parallel()
	for name, queued := range map[string]bool{"by priority": false, "between queues": true} {
		for _, isStatic := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, static %t", name, isStatic), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, node("node-0", "1"))
				victim, p := on(pod("v", "", "1", 0), "node-0"), pod("p", "", "1", 10)
				if isStatic {
					victim.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
				}
				if queued {
					entitled := limitedQueue("a", "8")
					entitled.Spec.Quota = entitled.Spec.Limit
					r.sched.QueueSet(entitled)
					r.sched.QueueSet(limitedQueue("b", "8"))
					victim.Labels = map[string]string{v1alpha1.LabelQueue: "b"}
					p.Labels = map[string]string{v1alpha1.LabelQueue: "a"}
					p.Spec.Priority = ptr.To[int32](0)
				}
				r.create(victim, p)
				r.eventually("the books know of them", func() bool {
					return !queued || r.sched.quotas.Knows(p.UID) && r.sched.quotas.Knows(victim.UID) && len(r.sched.quotas.Resources()) > 0
				})
				d := r.decideFor(p)
				switch {
				case !isStatic && d.Outcome != core.Preempts:
					t.Errorf("%s: %s, want a victim", d.Outcome, d.Message)
				case isStatic && (d.Outcome != core.Infeasible || !strings.Contains(d.Message, string(core.RuleStaticPod))):
					t.Errorf("%s: %s, want no victim, by the rule %s", d.Outcome, d.Message, core.RuleStaticPod)
				}
			})
		}
	}
}
