package queue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// Resources lists all resources that there are, or that a queue speaks of.
func (b *Board) Resources() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := make(map[string]bool)
	for name := range b.capacity {
		known[string(name)] = true
	}
	for _, q := range b.queues {
		for _, list := range [...]corev1.ResourceList{q.Spec.Quota, q.Spec.Limit} {
			for name := range list {
				known[string(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// SetStatus brings the status of a queue level with a standing.
func (s *Standing) SetStatus(q *v1alpha1.Queue) {
	st := &q.Status
	i, known := s.Tree.Find(q.Name)
	if known {
		st.Allocated, st.Requested, st.FairShare = s.list(q, i, s.Allocated[i]), s.list(q, i, s.Requested[i]), s.list(q, i, s.Shares[i])
	} else {
		st.Allocated, st.Requested, st.FairShare = nil, nil, nil
	}
	set := func(kind string, on bool, reason, message string) {
		status := metav1.ConditionFalse
		if on {
			status = metav1.ConditionTrue
		}
		apimeta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: q.Generation,
		})
	}
	set(v1alpha1.ConditionQueueReady, true, v1alpha1.ReasonQueueReady, "the queue is part of the tree")
	set(v1alpha1.ConditionQuotaServed, true, v1alpha1.ReasonQuotaServed, "the quota is within the parent's")
	for _, f := range s.Faults {
		if f.Queue != q.Name {
			continue
		}
		switch f.Kind {
		case core.FaultQuota:
			set(v1alpha1.ConditionQuotaServed, false, v1alpha1.ReasonQuotaAboveParent, s.quotaFaults(q.Name))
		case core.FaultMissingParent:
			set(v1alpha1.ConditionQueueReady, false, v1alpha1.ReasonParentNotFound,
				fmt.Sprintf("Queue %q, on the way to the top of the tree, does not exist; create it, or change spec.parent", f.Other))
		case core.FaultCycle:
			set(v1alpha1.ConditionQueueReady, false, v1alpha1.ReasonParentCycle,
				fmt.Sprintf("the way to the top of the tree comes back to Queue %q; change a spec.parent on it", f.Other))
		}
	}
	if orphaned, ok := s.Orphaned[q.Name]; ok {
		why := "the queue has others below it"
		if !known {
			why = "the queue cannot be used"
		}
		set(v1alpha1.ConditionOrphans, true, v1alpha1.ReasonHasWork,
			fmt.Sprintf("work runs that names the queue, with %s, and %s; it goes on, and counts for no queue", s.words(orphaned), why))
	} else if apimeta.FindStatusCondition(st.Conditions, v1alpha1.ConditionOrphans) != nil {
		set(v1alpha1.ConditionOrphans, false, v1alpha1.ReasonNoWork, "no work runs that cannot be in the queue")
	}
}

// quotaFaults says in which resources the quota of a queue is above its parent's.
func (s *Standing) quotaFaults(queue string) string {
	var resources []string
	parent := ""
	for _, f := range s.Faults {
		if f.Queue == queue && f.Kind == core.FaultQuota {
			resources, parent = append(resources, s.Names[f.Resource]), f.Other
		}
	}
	return fmt.Sprintf("the quota of %s is above that of the parent %q, which counts instead; lower it, or raise the parent's",
		strings.Join(resources, " and "), parent)
}

// list writes amounts for people. What the queue neither has nor asks for nor speaks of is left out.
func (s *Standing) list(q *v1alpha1.Queue, i int, amounts core.Amounts) corev1.ResourceList {
	out := make(corev1.ResourceList)
	for r, name := range s.Names {
		name := corev1.ResourceName(name)
		_, quota := q.Spec.Quota[name]
		_, limit := q.Spec.Limit[name]
		if quota || limit || s.Allocated[i][r] != 0 || s.Requested[i][r] != 0 {
			out[name] = quantity(name, amounts[r])
		}
	}
	return out
}

// words lists amounts in a sentence.
func (s *Standing) words(amounts core.Amounts) string {
	var parts []string
	for r, v := range amounts {
		if v != 0 {
			q := quantity(corev1.ResourceName(s.Names[r]), v)
			parts = append(parts, q.String()+" "+s.Names[r])
		}
	}
	return strings.Join(parts, ", ")
}

// quantity is an amount in the form that people write it.
func quantity(name corev1.ResourceName, v int64) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(v, resource.DecimalSI)
	case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return *resource.NewQuantity(v, resource.BinarySI)
	default:
		return *resource.NewQuantity(v, resource.DecimalSI)
	}
}
