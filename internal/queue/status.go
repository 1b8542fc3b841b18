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
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// knownResources is a cached result of Resources, with its inputs: the count of queue changes, and
// the resources of nodes.
type knownResources struct {
	names  []string
	listed uint64
	had    map[corev1.ResourceName]bool
}

// Resources returns the resources that nodes have or that queues name. The caller must not change
// the result.
func (b *Ledger) Resources() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	had := b.resources.had
	if b.resources.listed == b.listed && len(had) == len(b.capacity) && !anyBut(b.capacity, had) {
		return b.resources.names
	}
	known := make(map[string]bool)
	had = make(map[corev1.ResourceName]bool, len(b.capacity))
	for name := range b.capacity {
		known[string(name)], had[name] = true, true
	}
	for _, q := range b.queues {
		for _, list := range [...]corev1.ResourceList{q.Spec.Quota, q.Spec.Limit} {
			for name := range list {
				known[string(name)] = true
			}
		}
	}
	b.resources = knownResources{names: slices.Sorted(maps.Keys(known)), listed: b.listed, had: had}
	return b.resources.names
}

// anyBut reports whether the amounts have a resource that the set does not have.
func anyBut(a Amounts, set map[corev1.ResourceName]bool) bool {
	for name := range a {
		if !set[name] {
			return true
		}
	}
	return false
}

// SetStatus updates the status of a Queue from the Snapshot. wholeGroups comes from
// [Ledger.WholeGroups].
func (s *Snapshot) SetStatus(q *v1alpha1.Queue, wholeGroups WholeGroups) {
	st := &q.Status
	i, known := s.Tree.Find(q.Name)
	if known {
		st.Allocated, st.Requested, st.FairShare = s.list(q, i, s.Allocated[i]), s.list(q, i, s.Requested[i]), s.list(q, i, s.Shares[i])
		st.Quota = s.list(q, i, s.Tree.Queue(i).Quota)
		st.Waiting = s.Waiting[i]
		s.accesses[i].setStatus(st)
	} else {
		st.Allocated, st.Requested, st.FairShare, st.Quota, st.Waiting = nil, nil, nil, nil, 0
		(&access{}).setStatus(st)
	}
	ready, quota := s.conditions(q.Name)
	if known {
		if deleted := s.deletedAbove(i); deleted != "" {
			ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonParentNotFound
			ready.Message = fmt.Sprintf("Queue %q, on the way to the top of the tree, was deleted; create it again, or change spec.parent", deleted)
		}
	}
	if known && s.accesses[i].class != "" && s.accesses[i].highest == nil {
		ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonMaxPriorityUnknown
		ready.Message = fmt.Sprintf("PriorityClass %q, the maxPriorityClass, does not exist; create it, or change spec.maxPriorityClass", s.accesses[i].class)
	}
	if known && quota.Status == metav1.ConditionTrue {
		if why := s.unreturnable(i, wholeGroups); why != "" {
			quota.Status, quota.Reason, quota.Message = metav1.ConditionFalse, v1alpha1.ReasonQuotaHeld, why
		}
	}
	st.Summary = summaryOf(q, ready, quota)
	conditions := []metav1.Condition{ready, quota}
	if orphaned, ok := s.Orphaned[q.Name]; ok {
		why := "the queue has others below it"
		if !known {
			why = "the queue cannot be used"
		}
		conditions = append(conditions, metav1.Condition{
			Type: v1alpha1.ConditionOrphans, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHasWork,
			Message: fmt.Sprintf("work runs that names the queue, with %s, and %s; it goes on, and counts for no queue", s.words(orphaned), why),
		})
	} else if apimeta.FindStatusCondition(st.Conditions, v1alpha1.ConditionOrphans) != nil {
		conditions = append(conditions, metav1.Condition{
			Type: v1alpha1.ConditionOrphans, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoWork,
			Message: "no work runs that cannot be in the queue",
		})
	}
	// Set each condition only once. An intermediate value would change lastTransitionTime, so each
	// update would write the status.
	for _, c := range conditions {
		c.ObservedGeneration = q.Generation
		apimeta.SetStatusCondition(&st.Conditions, c)
	}
}

// conditions returns the conditions Ready and QuotaServed of a queue.
func (s *Snapshot) conditions(queue string) (ready, quota metav1.Condition) {
	ready = metav1.Condition{
		Type: v1alpha1.ConditionQueueReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonQueueReady, Message: "the queue is part of the tree",
	}
	quota = metav1.Condition{
		Type: v1alpha1.ConditionQuotaServed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonQuotaServed, Message: "the quota is within the parent's",
	}
	for _, f := range s.Faults {
		if f.Queue != queue {
			continue
		}
		switch f.Kind {
		case fairshare.FaultQuota:
			quota.Status, quota.Reason, quota.Message = metav1.ConditionFalse, v1alpha1.ReasonQuotaAboveParent, s.quotaFaults(queue)
		case fairshare.FaultMissingParent:
			ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonParentNotFound
			ready.Message = fmt.Sprintf("Queue %q, on the way to the top of the tree, does not exist; create it, or change spec.parent", f.Other)
		case fairshare.FaultCycle:
			ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonParentCycle
			ready.Message = fmt.Sprintf("the way to the top of the tree comes back to Queue %q; change a spec.parent on it", f.Other)
		}
	}
	return ready, quota
}

// quotaFaults returns a message that lists the resources whose quota exceeds the quota of the
// queue's parent; "" for none.
func (s *Snapshot) quotaFaults(queue string) string {
	var resources []string
	parent := ""
	for _, f := range s.Faults {
		if f.Queue == queue && f.Kind == fairshare.FaultQuota {
			resources, parent = append(resources, s.Names[f.Resource]), f.Other
		}
	}
	return fmt.Sprintf("the quota of %s is above that of the parent %q, which counts instead; lower it, or raise the parent's",
		strings.Join(resources, " and "), parent)
}

// list converts amounts to a list for the status. It leaves out resources that the queue does not
// use, request, or name in its spec.
func (s *Snapshot) list(q *v1alpha1.Queue, i int32, amounts fairshare.Amounts) corev1.ResourceList {
	out := make(corev1.ResourceList)
	for r, name := range s.Names {
		name := corev1.ResourceName(name)
		_, quota := q.Spec.Quota[name]
		_, limit := q.Spec.Limit[name]
		if quota || limit || s.Allocated[i][r] != 0 || s.Requested[i][r] != 0 {
			out[name] = resource.MustParse(fairshare.Format(string(name), amounts[r]))
		}
	}
	return out
}

// words formats amounts for a sentence, such as "2 cpu, 8 example.com/gpu".
func (s *Snapshot) words(amounts fairshare.Amounts) string {
	var parts []string
	for r, v := range amounts {
		if v != 0 {
			parts = append(parts, fairshare.Format(s.Names[r], v)+" "+s.Names[r])
		}
	}
	return strings.Join(parts, ", ")
}

// MissingQuotas returns, by queue name, the part of each quota that the pods of the queue request
// and do not have. It has an entry for each resource with a quota. The entry is 0 if nothing is
// missing.
func (s *Snapshot) MissingQuotas() map[string]corev1.ResourceList {
	out := make(map[string]corev1.ResourceList, s.Tree.Len())
	for i := range s.Tree.Len() {
		q := s.Tree.Queue(int32(i))
		missing := make(corev1.ResourceList)
		for r, quota := range q.Quota {
			if quota > 0 {
				name := corev1.ResourceName(s.Names[r])
				missing[name] = resource.MustParse(fairshare.Format(s.Names[r], max(min(quota, s.Requested[i][r])-s.Allocated[i][r], 0)))
			}
		}
		out[q.Name] = missing
	}
	return out
}
