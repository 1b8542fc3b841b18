package app

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/report"
)

// waitersOf returns the workloads with pods that wait for a node. The highest priority comes first,
// and among equal priorities the oldest workload. Each workload has the reason and the message in
// its status.
func waitersOf(asked *question, parties map[string]report.Party) ([]report.Waiter, error) {
	groups, err := ownGroups(asked.objects)
	if err != nil {
		return nil, err
	}
	pods, err := inventory.Decode[*corev1.Pod](asked.objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	said := make(map[types.NamespacedName]*metav1.Condition, len(groups))
	for _, pg := range groups {
		said[types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}] = meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
	}
	at, membership := make(map[string]*waiter), asked.workloads()
	var names []string
	for _, pod := range pods {
		if !waitsForNode(pod) || !schedules(asked, pod) {
			continue
		}
		name, of := unitName(pod.Namespace, pod.Name, false), (*metav1.Condition)(nil)
		if key, ok := membership.GroupOf(pod); ok {
			name, of = unitName(key.Namespace, key.Name, true), said[key]
		}
		if at[name] == nil {
			at[name] = &waiter{report.Waiter{Party: party(name, parties), Since: pod.CreationTimestamp.Time}}
			names = append(names, name)
		}
		at[name].take(pod, of)
	}
	out := make([]report.Waiter, 0, len(names))
	for _, name := range names {
		out = append(out, at[name].Waiter)
	}
	priority := func(w *report.Waiter) int32 {
		if w.Priority == nil {
			return 0
		}
		return *w.Priority
	}
	slices.SortStableFunc(out, func(x, y report.Waiter) int {
		return cmp.Or(cmp.Compare(priority(&y), priority(&x)), x.Since.Compare(y.Since))
	})
	return out, nil
}

// take adds a pod to its pending workload. The argument of is the condition PodGroupScheduled of
// the workload's PodGroup, or nil.
func (w *waiter) take(pod *corev1.Pod, of *metav1.Condition) {
	if created := pod.CreationTimestamp.Time; created.Before(w.Since) {
		w.Since = created
	}
	w.Reserved = w.Reserved || pod.Status.NominatedNodeName != ""
	if of != nil && of.Status == metav1.ConditionFalse {
		w.Reason, w.Cause = of.Reason, of.Message
		return
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			w.Reason, w.Cause = cmp.Or(w.Reason, c.Reason), cmp.Or(w.Cause, c.Message)
		}
	}
}

// waiter is a pending workload while waitersOf collects its pods.
type waiter struct{ report.Waiter }

// waitsForNode reports whether a pod has no node but may still get one.
func waitsForNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// schedules reports whether a pod names a profile of the scheduler.
func schedules(asked *question, pod *corev1.Pod) bool {
	return slices.ContainsFunc(asked.cfg.Profiles, func(p config.KubeSchedulerProfile) bool { return p.SchedulerName == pod.Spec.SchedulerName })
}
