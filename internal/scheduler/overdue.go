package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// departures follows pods that terminate or will terminate. It retries the workloads that wait for
// such a pod if the pod is overdue, or keeps running after all. [leaving.Pods] records these pods.
// [podWatch], [groupWatch] and the main loop call departures. It is safe for concurrent use.
type departures struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	leaving    *leaving.Pods
	quotas     *queue.Ledger
	cluster    *snapshot.Cache
	waits      *engine.Waits
	clock      clock.WithTicker
	steps      *stepper
	retries    *retries
	rooms      *rooms
}

// follow schedules a check of a terminating pod for the time when it becomes overdue.
func (ds *departures) follow(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" && !pod.DeletionTimestamp.IsZero() && !ds.leaving.IsOverdue(pod.UID) {
		at := ds.index.Profiles.DepartureLimits().OverdueAt(pod)
		ds.steps.step(engine.PodArrives{Pod: string(pod.UID), Key: podKey(pod)})
		ds.waits.WaitUntil(podKey(pod), engine.Departure, engine.OnClock(at, ds.clock.Now()))
	}
}

// overdue marks a terminating pod as overdue, and retries the workloads that wait for it. The
// snapshot counts the pod as running from then on. All workloads see the same state, because the
// mark does not depend on the time of a decision.
func (ds *departures) overdue(key workload.Key) {
	pod, ok := ds.index.PodOf(key)
	if !ok || pod.DeletionTimestamp == nil {
		return
	}
	ds.leaving.SetOverdue(pod.UID)
	if !ds.index.Exists(pod) {
		// The pod was deleted, and its state was dropped, after its deadline had been scheduled.
		ds.leaving.Gone(pod, ds.clock.Now())
		return
	}
	// An overdue pod counts as usage of its queue again.
	ds.ledger.Charge(pod)
	misled := ds.stays(pod)
	limits := ds.index.Profiles.DepartureLimits()
	klog.Background().V(2).Info("A terminating pod is overdue, and not waited for any more", "pod", klog.KObj(pod), "node", pod.Spec.NodeName,
		"graceEnds", pod.DeletionTimestamp.Time, "graceIsTooLong", limits.Cut(pod), "preemptors", len(misled))
	for _, key := range misled {
		preemptor, ok := ds.index.PendingOf(key)
		if !ok {
			continue
		}
		if recorder := ds.index.Profiles.Recorder(preemptor.Spec.SchedulerName); recorder != nil {
			recorder.Eventf(pod, preemptor, corev1.EventTypeWarning, "TerminationOverdue", "Preempting",
				"%s; %s looks for other room", limits.Sentence(pod), key)
		}
	}
}

// overdueSentence names the overdue pods on nodes where a pod of one of the classes could run; ""
// if there are none.
func (p *Plugin) overdueSentence(v *decisionView, classes []snapshot.Class) string {
	const most = 3
	limits := p.sched.index.Profiles.DepartureLimits()
	var late, cut []string
	for _, pod := range v.Overdue() {
		node, err := p.sched.index.Nodes.Get(pod.Spec.NodeName)
		if err != nil || !slices.ContainsFunc(classes, func(c snapshot.Class) bool { return p.sched.index.CouldRunOn(node, c.Pods[0].GetPod()) }) {
			continue
		}
		name := klog.KObj(pod).String() + " on " + pod.Spec.NodeName
		if limits.Cut(pod) {
			cut = append(cut, name)
		} else {
			late = append(late, name)
		}
	}
	var out string
	if len(late) > 0 {
		out = fmt.Sprintf("not waited for, still terminating more than %v after the grace period: %s", limits.Timeout, strings.Join(core.FewNames(late, most), ", "))
	}
	if len(cut) > 0 {
		out = joined(out, fmt.Sprintf("not waited for, deleted with a grace period longer than maxGracePeriod (%v): %s", limits.Grace, strings.Join(core.FewNames(cut, most), ", ")))
	}
	return out
}
