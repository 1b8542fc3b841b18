package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// terminationTimeout returns the longest timeout of all profiles. The profiles share one snapshot,
// and a pod of the snapshot is either terminating or running for all of them.
func (ps *profiles) terminationTimeout() time.Duration {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	if len(ps.byName) == 0 {
		return math.MaxInt64
	}
	var longest time.Duration
	for _, facts := range ps.byName {
		longest = max(longest, facts.args.TerminationTimeout.Duration)
	}
	return longest
}

// TerminationTimeout returns the longest timeout of all profiles. Any goroutine may call it.
func (h *Hub) TerminationTimeout() time.Duration { return h.profiles.terminationTimeout() }

// followDeparture schedules a check of a terminating pod on a node for the time when it is overdue.
// The deletion timestamp of the pod is the end of its grace period.
func (h *Hub) followDeparture(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" && !pod.DeletionTimestamp.IsZero() && !h.leaving.isOverdue(pod.UID) {
		at := pod.DeletionTimestamp.Add(h.profiles.terminationTimeout())
		h.waits.WaitUntil(podKey(pod), admission.Departure, onClock(at, h.clock.Now()))
	}
}

// onClock converts a time from the API or the core to the clock of the process. All other deadlines
// use that clock. Without the conversion, the order of deadlines would break when the system time
// is set.
func onClock(at, now time.Time) time.Time { return now.Add(at.Sub(now)) }

// overdue marks a terminating pod as overdue and retries the workloads that wait for it. From here
// on the snapshot counts the pod as running. The mark does not depend on the time of a decision, so
// no waiting workload is missed.
func (h *Hub) overdue(key workload.Key) {
	pod, ok := h.podOf(key)
	if !ok || pod.DeletionTimestamp == nil {
		return
	}
	h.leaving.setOverdue(pod.UID)
	if !h.exists(pod) {
		// The pod was deleted and forgotten meanwhile.
		h.leaving.gone(pod, h.clock.Now())
		return
	}
	// The pod counts for its queue with its requests again.
	h.charge(pod)
	misled := h.stays(pod)
	klog.Background().V(2).Info("A terminating pod is overdue, and not waited for any more", "pod", klog.KObj(pod), "node", pod.Spec.NodeName,
		"since", pod.DeletionTimestamp.Time, "preemptors", len(misled))
	for _, key := range misled {
		preemptor, ok := h.pendingOf(key)
		if !ok {
			continue
		}
		if recorder := h.profiles.recorder(preemptor.Spec.SchedulerName); recorder != nil {
			recorder.Eventf(pod, preemptor, corev1.EventTypeWarning, "TerminationOverdue", "Preempting",
				"%s is still here %v after its grace period: node %s may not answer; %s looks for other room",
				klog.KObj(pod), h.profiles.terminationTimeout(), pod.Spec.NodeName, key)
		}
	}
}

// pendingOf returns a pod of a workload that waits for its place.
func (r *roster) pendingOf(key workload.Key) (*corev1.Pod, bool) {
	if !key.Gang {
		return r.podOf(key)
	}
	members := r.lister.Members(nameOf(key))
	if len(members.Pending) == 0 {
		return nil, false
	}
	return members.Pending[0], true
}

// overdueSentence names the overdue pods of a view on nodes where members of some class could run.
// It returns "" if there are none.
func (r *roster) overdueSentence(v *view, classes []snapshot.Class) string {
	const most = 3
	var names []string
	for _, pod := range v.Overdue() {
		node, err := r.nodes.Get(pod.Spec.NodeName)
		if err == nil && slices.ContainsFunc(classes, func(c snapshot.Class) bool { return r.couldRunOn(node, c.Pods[0].GetPod()) }) {
			names = append(names, klog.KObj(pod).String()+" on "+pod.Spec.NodeName)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("not waited for, still terminating more than %v after the grace period: %s",
		r.profiles.terminationTimeout(), strings.Join(core.FewNames(names, most), ", "))
}

// couldRunOn reports whether the node selector, affinity and tolerations of a pod allow a node.
// Other pods on the node do not matter.
func (r *roster) couldRunOn(node *corev1.Node, pod *corev1.Pod) bool {
	wanted, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && wanted && r.turnsAway(node.Name, pod) == ""
}
