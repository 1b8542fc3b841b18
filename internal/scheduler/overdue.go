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

// terminationTimeout is the longest of all profiles: they share one picture of the cluster, in which a pod goes or stays.
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

// TerminationTimeout is the longest of all profiles. Any goroutine may call it.
func (h *Hub) TerminationTimeout() time.Duration { return h.profiles.terminationTimeout() }

// followDeparture has the waiting list come back to a pod on a node that is terminating, when it is overdue. Its deletion
// timestamp is the end of its grace period.
func (h *Hub) followDeparture(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" && !pod.DeletionTimestamp.IsZero() && !h.leaving.isOverdue(pod.UID) {
		at := pod.DeletionTimestamp.Add(h.profiles.terminationTimeout())
		h.waits.WaitUntil(podKey(pod), admission.Departure, onClock(at, h.clock.Now()))
	}
}

// onClock is a moment that the API or the core has named, in terms of the process's own clock, as all others are that are waited for: the
// order of both kinds would not hold when the time of day is set.
func onClock(at, now time.Time) time.Time { return now.Add(at.Sub(now)) }

// overdue has workloads look for other room that have counted on a pod to go which is still there. That it stays begins here, and
// not by the time at which a decision looks: so no workload is missed that waits for it.
func (h *Hub) overdue(key workload.Key) {
	pod, ok := h.podOf(key)
	if !ok || pod.DeletionTimestamp == nil {
		return
	}
	h.leaving.setOverdue(pod.UID)
	if !h.exists(pod) {
		// It has gone, and been forgotten, meanwhile.
		h.leaving.gone(pod, h.clock.Now())
		return
	}
	// It counts for its queue as what it asks for again.
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

// pendingOf finds a pod of a workload that waits for its place.
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

// overdueSentence names the pods of a view that should have gone long ago from nodes where members of some class could be;
// empty where there are none.
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

// couldRunOn reports whether a pod has nothing against a node, whatever else is there.
func (r *roster) couldRunOn(node *corev1.Node, pod *corev1.Pod) bool {
	wanted, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && wanted && r.turnsAway(node.Name, pod) == ""
}
