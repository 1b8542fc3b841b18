package queue

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestSummary checks the columns of kubectl get: they show the effective quota in readable amounts,
// and whether the parent's quota reduces it.
func TestSummary(t *testing.T) {
	t.Parallel()
	list := func(gpus, memory string) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	parent := "org"
	org := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: parent}, Spec: v1alpha1.QueueSpec{Quota: list("8", "1Ti")}}
	team := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.QueueSpec{Parent: &parent, Quota: list("24", "1610612736")}}
	lost := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: v1alpha1.QueueSpec{Parent: &[]string{"gone"}[0]}}
	ledger := NewLedger()
	for _, q := range []*v1alpha1.Queue{org, team, lost} {
		ledger.SetQueue(q)
	}
	standing := ledger.Snapshot(ledger.Resources())
	for name, c := range map[string]struct {
		of   *v1alpha1.Queue
		want v1alpha1.QueueSummary
	}{
		"a quota that is served": {of: org, want: v1alpha1.QueueSummary{Used: "0 memory, 0 gpu", Share: "0 memory, 0 gpu", Quota: "1Ti memory, 8 gpu", Ready: "True"}},
		"a quota that is cut":    {of: team, want: v1alpha1.QueueSummary{Used: "0 memory, 0 gpu", Share: "0 memory, 0 gpu", Quota: "1.5Gi memory, 8 (of 24) gpu", Ready: "True (QuotaAboveParent)"}},
		"no parent":              {of: lost, want: v1alpha1.QueueSummary{Quota: "0", Ready: "False (ParentNotFound)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := c.of.DeepCopy()
			standing.SetStatus(q, ledger.WholeGroups(standing))
			if got := q.Status.Summary; got == nil || *got != c.want {
				t.Errorf("the summary is %+v, want %+v", got, c.want)
			}
		})
	}
}
