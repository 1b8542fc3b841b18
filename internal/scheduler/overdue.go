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

// followDeparture has the waiting list come back to a pod on a node that goes, when it is overdue. The deletion timestamp of one that
// is terminating is the end of its grace period.
func (h *Hub) followDeparture(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	if pod.DeletionTimestamp != nil {
		if !pod.DeletionTimestamp.IsZero() && !h.leaving.isOverdue(pod.UID) {
			h.waits.WaitUntil(podKey(pod), admission.Departure, pod.DeletionTimestamp.Add(h.profiles.terminationTimeout()))
		}
	} else if since, ok := h.leaving.listedSince(pod); ok && !h.leaving.isUndeleted(pod.UID) {
		h.waits.WaitUntil(podKey(pod), admission.Departure, since.Add(h.profiles.terminationTimeout()))
	}
}

// overdue has workloads look for other room that have counted on a pod to go which is still there. That it stays begins here, and
// not by the time at which a decision looks: so no workload is missed that waits for it.
func (h *Hub) overdue(key workload.Key) {
	pod, ok := h.podOf(key)
	if !ok {
		return
	}
	switch {
	case pod.DeletionTimestamp != nil:
		h.leaving.setOverdue(pod.UID)
	case h.leaving.takes(pod.UID):
		// An eviction of this process is about to delete it.
		h.waits.WaitUntil(key, admission.Departure, h.clock.Now().Add(max(lag, h.profiles.terminationTimeout())))
		return
	case !h.leaving.setUndeleted(pod):
		return
	}
	if !h.exists(pod) {
		// It has gone, and been forgotten, meanwhile.
		h.leaving.gone(pod, h.clock.Now())
		return
	}
	// It counts for its queue as what it asks for again.
	h.charge(pod)
	misled, why := h.stays(pod), h.whyOverdue(pod)
	klog.Background().V(2).Info("A pod that was to go is overdue, and not waited for any more", "pod", klog.KObj(pod),
		"node", pod.Spec.NodeName, "reason", why, "preemptors", len(misled))
	for _, key := range misled {
		preemptor, ok := h.pendingOf(key)
		if !ok {
			continue
		}
		if recorder := h.profiles.recorder(preemptor.Spec.SchedulerName); recorder != nil {
			recorder.Eventf(pod, preemptor, corev1.EventTypeWarning, "TerminationOverdue", "Preempting",
				"%s is still here %s; %s looks for other room", klog.KObj(pod), why, key)
		}
	}
}

// whyOverdue says for how long a pod has been expected to go, and what may be in the way.
func (r *roster) whyOverdue(pod *corev1.Pod) string {
	timeout := r.profiles.terminationTimeout()
	if pod.DeletionTimestamp != nil {
		return fmt.Sprintf("%v after its grace period: node %s may not answer", timeout, pod.Spec.NodeName)
	}
	return fmt.Sprintf("%v after its PodGroup was to go as a whole: its deletion may be refused", timeout)
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
	var terminating, undeleted []string
	for _, pod := range v.Overdue() {
		node, err := r.nodes.Get(pod.Spec.NodeName)
		if err != nil || !slices.ContainsFunc(classes, func(c snapshot.Class) bool { return r.couldRunOn(node, c.Pods[0].GetPod()) }) {
			continue
		}
		name := klog.KObj(pod).String() + " on " + pod.Spec.NodeName
		if pod.DeletionTimestamp != nil {
			terminating = append(terminating, name)
		} else {
			undeleted = append(undeleted, name)
		}
	}
	timeout := r.profiles.terminationTimeout()
	return joined(
		sentenceOf(fmt.Sprintf("not waited for, still terminating more than %v after the grace period: ", timeout), terminating),
		sentenceOf(fmt.Sprintf("not waited for, not deleted more than %v after their PodGroup was to go as a whole: ", timeout), undeleted))
}

// sentenceOf is a sentence about some pods; empty where there are none.
func sentenceOf(begin string, names []string) string {
	const most = 3
	if len(names) == 0 {
		return ""
	}
	return begin + strings.Join(core.FewNames(names, most), ", ")
}

// couldRunOn reports whether a pod has nothing against a node, whatever else is there.
func (r *roster) couldRunOn(node *corev1.Node, pod *corev1.Pod) bool {
	wanted, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && wanted && r.turnsAway(node.Name, pod) == ""
}
