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
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// departureLimits bound how long planning counts a terminating pod as gone.
type departureLimits struct {
	// grace is the longest grace period that planning waits for. timeout is the time that follows
	// the grace period.
	grace, timeout time.Duration
}

// departureLimits returns the longest limits of all profiles. The profiles share one snapshot, and
// a pod of the snapshot is either terminating or running for all of them.
func (ps *profiles) departureLimits() departureLimits {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	if len(ps.byName) == 0 {
		return departureLimits{grace: math.MaxInt64, timeout: math.MaxInt64}
	}
	var longest departureLimits
	for _, facts := range ps.byName {
		longest.grace = max(longest.grace, facts.args.MaxGracePeriod.Duration)
		longest.timeout = max(longest.timeout, facts.args.TerminationTimeout.Duration)
	}
	return longest
}

// cut reports whether a terminating pod has a longer grace period than planning waits for.
func (l departureLimits) cut(pod *corev1.Pod) bool {
	return ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > int64(l.grace/time.Second)
}

// overdueAt returns the time when a terminating pod becomes overdue: l.timeout after the end of its
// grace period. A grace period longer than l.grace counts as l.grace, from the start of the
// deletion. The deletion timestamp is the end of the grace period. Subtracting the grace period
// gives the start of the deletion, which stays the same if the grace period is shortened.
func (l departureLimits) overdueAt(pod *corev1.Pod) time.Time {
	if !l.cut(pod) {
		return pod.DeletionTimestamp.Add(l.timeout)
	}
	// For a grace period of more than 292 years, the API server's addition overflows. The
	// subtraction overflows in the same way, so the result is exact.
	begun := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	return begun.Add(l.grace).Add(l.timeout)
}

// TerminationTimeout returns the longest timeout of all profiles. Any goroutine may call it.
func (h *Scheduler) TerminationTimeout() time.Duration { return h.profiles.departureLimits().timeout }

// MaxGracePeriod returns the longest grace period that victims get. It is the longest of all
// profiles. Any goroutine may call it.
func (h *Scheduler) MaxGracePeriod() time.Duration { return h.profiles.departureLimits().grace }

// followDeparture schedules a check of a terminating pod on a node for the time when it is overdue.
func (h *Scheduler) followDeparture(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" && !pod.DeletionTimestamp.IsZero() && !h.leaving.isOverdue(pod.UID) {
		at := h.profiles.departureLimits().overdueAt(pod)
		h.step(engine.PodArrives{Pod: string(pod.UID), Key: podKey(pod)})
		h.waits.WaitUntil(podKey(pod), engine.Departure, onClock(at, h.clock.Now()))
	}
}

// onClock converts a time from the API or the core to the clock of the process, which all other
// deadlines use. Without the conversion, a change of the system time would break the order of
// deadlines.
func onClock(at, now time.Time) time.Time { return now.Add(at.Sub(now)) }

// overdue marks a terminating pod as overdue and retries the workloads that wait for it. From then
// on, the snapshot counts the pod as running. The mark does not depend on the time of a decision,
// so all workloads see the same state.
func (h *Scheduler) overdue(key workload.Key) {
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
	// The pod's requests count as usage of its queue again.
	h.charge(pod)
	misled := h.stays(pod)
	limits := h.profiles.departureLimits()
	klog.Background().V(2).Info("A terminating pod is overdue, and not waited for any more", "pod", klog.KObj(pod), "node", pod.Spec.NodeName,
		"graceEnds", pod.DeletionTimestamp.Time, "graceIsTooLong", limits.cut(pod), "preemptors", len(misled))
	for _, key := range misled {
		preemptor, ok := h.pendingOf(key)
		if !ok {
			continue
		}
		if recorder := h.profiles.recorder(preemptor.Spec.SchedulerName); recorder != nil {
			recorder.Eventf(pod, preemptor, corev1.EventTypeWarning, "TerminationOverdue", "Preempting",
				"%s; %s looks for other room", limits.sentence(pod), key)
		}
	}
}

// sentence explains why a terminating pod is overdue.
func (l departureLimits) sentence(pod *corev1.Pod) string {
	if l.cut(pod) {
		return fmt.Sprintf("%s was deleted with a grace period of %d s, longer than maxGracePeriod (%v), and is still here %v after that",
			klog.KObj(pod), *pod.DeletionGracePeriodSeconds, l.grace, l.timeout)
	}
	return fmt.Sprintf("%s is still here %v after its grace period: node %s may not answer", klog.KObj(pod), l.timeout, pod.Spec.NodeName)
}

// pendingOf returns a pod of a workload that waits for its place.
func (r *clusterIndex) pendingOf(key workload.Key) (*corev1.Pod, bool) {
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
func (r *clusterIndex) overdueSentence(v *decisionView, classes []snapshot.Class) string {
	const most = 3
	limits := r.profiles.departureLimits()
	var late, cut []string
	for _, pod := range v.Overdue() {
		node, err := r.nodes.Get(pod.Spec.NodeName)
		if err != nil || !slices.ContainsFunc(classes, func(c snapshot.Class) bool { return r.couldRunOn(node, c.Pods[0].GetPod()) }) {
			continue
		}
		name := klog.KObj(pod).String() + " on " + pod.Spec.NodeName
		if limits.cut(pod) {
			cut = append(cut, name)
		} else {
			late = append(late, name)
		}
	}
	var out string
	if len(late) > 0 {
		out = fmt.Sprintf("not waited for, still terminating more than %v after the grace period: %s", limits.timeout, strings.Join(core.FewNames(late, most), ", "))
	}
	if len(cut) > 0 {
		out = joined(out, fmt.Sprintf("not waited for, deleted with a grace period longer than maxGracePeriod (%v): %s", limits.grace, strings.Join(core.FewNames(cut, most), ", ")))
	}
	return out
}

// couldRunOn reports whether the node selector, affinity and tolerations of a pod allow a node.
// Other pods on the node do not matter.
func (r *clusterIndex) couldRunOn(node *corev1.Node, pod *corev1.Pod) bool {
	wanted, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && wanted && r.rejects(node, pod) == ""
}
