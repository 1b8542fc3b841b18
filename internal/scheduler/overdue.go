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
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// departures follows pods that terminate: when they are overdue, and when they stay after all. It is safe
// for concurrent use.
type departures struct {
	index      *clusterIndex
	placements *placements
	ledger     *ledger
	leaving    *leaving.Pods
	quotas     *queue.Ledger
	cluster    *snapshot.Cache
	waits      *engine.Waits
	clock      clock.WithTicker
	steps      *stepper
	retries    *retries
	rooms      *rooms
}

// departureLimits bounds how long planning counts a terminating pod as gone.
type departureLimits struct {
	// grace is the longest grace period that planning waits for.
	grace time.Duration
	// timeout is the time that planning waits after the grace period.
	timeout time.Duration
}

// departureLimits returns the longest limits of all profiles. The profiles share one snapshot, so a
// pod must be either terminating or overdue for all of them.
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

// cut reports whether the grace period of a terminating pod is longer than planning waits for.
func (l departureLimits) cut(pod *corev1.Pod) bool {
	return ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > int64(l.grace/time.Second)
}

// overdueAt returns the time when a terminating pod becomes overdue: l.timeout after the end of its
// grace period. Of a longer grace period, only l.grace counts.
//
// The deletion timestamp is the end of the grace period. So the deletion began at the timestamp
// minus the grace period, even if the grace period was shortened later.
func (l departureLimits) overdueAt(pod *corev1.Pod) time.Time {
	if !l.cut(pod) {
		return pod.DeletionTimestamp.Add(l.timeout)
	}
	// For a grace period over 292 years, the addition in the API server overflows. This subtraction
	// overflows in the same way, so the result is exact.
	begun := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	return begun.Add(l.grace).Add(l.timeout)
}

// follow schedules a check of a terminating pod for the time when it becomes overdue.
func (ds *departures) follow(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" && !pod.DeletionTimestamp.IsZero() && !ds.leaving.IsOverdue(pod.UID) {
		at := ds.index.profiles.departureLimits().overdueAt(pod)
		ds.steps.step(engine.PodArrives{Pod: string(pod.UID), Key: podKey(pod)})
		ds.waits.WaitUntil(podKey(pod), engine.Departure, onClock(at, ds.clock.Now()))
	}
}

// onClock converts a time from the API or the core to the clock of the process. All deadlines use
// that clock, so a change of the system time does not change their order.
func onClock(at, now time.Time) time.Time { return now.Add(at.Sub(now)) }

// overdue marks a terminating pod as overdue, and retries the workloads that wait for it. The
// snapshot counts the pod as running from then on. All workloads see the same state, because the
// mark does not depend on the time of a decision.
func (ds *departures) overdue(key workload.Key) {
	pod, ok := ds.index.podOf(key)
	if !ok || pod.DeletionTimestamp == nil {
		return
	}
	ds.leaving.SetOverdue(pod.UID)
	if !ds.index.exists(pod) {
		// The pod was deleted, and its state was dropped, after its deadline had been scheduled.
		ds.leaving.Gone(pod, ds.clock.Now())
		return
	}
	// An overdue pod counts as usage of its queue again.
	ds.ledger.charge(pod)
	misled := ds.stays(pod)
	limits := ds.index.profiles.departureLimits()
	klog.Background().V(2).Info("A terminating pod is overdue, and not waited for any more", "pod", klog.KObj(pod), "node", pod.Spec.NodeName,
		"graceEnds", pod.DeletionTimestamp.Time, "graceIsTooLong", limits.cut(pod), "preemptors", len(misled))
	for _, key := range misled {
		preemptor, ok := ds.index.pendingOf(key)
		if !ok {
			continue
		}
		if recorder := ds.index.profiles.recorder(preemptor.Spec.SchedulerName); recorder != nil {
			recorder.Eventf(pod, preemptor, corev1.EventTypeWarning, "TerminationOverdue", "Preempting",
				"%s; %s looks for other room", limits.sentence(pod), key)
		}
	}
}

func (l departureLimits) sentence(pod *corev1.Pod) string {
	if l.cut(pod) {
		return fmt.Sprintf("%s was deleted with a grace period of %d s, longer than maxGracePeriod (%v), and is still here %v after that",
			klog.KObj(pod), *pod.DeletionGracePeriodSeconds, l.grace, l.timeout)
	}
	return fmt.Sprintf("%s is still here %v after its grace period: node %s may not answer", klog.KObj(pod), l.timeout, pod.Spec.NodeName)
}

// pendingOf returns a pending pod of a workload; false if there is none.
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

// overdueSentence names the overdue pods on nodes where a pod of one of the classes could run; ""
// if there are none.
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

// couldRunOn reports whether a pod's node selector, node affinity and tolerations allow a node. It
// ignores the other pods on the node.
func (r *clusterIndex) couldRunOn(node *corev1.Node, pod *corev1.Pod) bool {
	wanted, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && wanted && r.rejects(node, pod) == ""
}
