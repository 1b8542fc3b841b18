package reporter

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// HoldForTurn is the message of a pod that waits for its turn.
const HoldForTurn = "other work of the queues comes first"

// ReportBlocked reports to single pods why they may not use their queue, or why the bound on
// drivers blocks them. The main loop calls it.
func (t *Reporter) ReportBlocked() {
	for _, report := range t.records.Reports(maxReports) {
		pod, ok := t.index.PodOf(report.Key)
		if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		v := report.Verdict
		if v == (gang.Verdict{}) {
			v = gang.Verdict{Reason: v1alpha1.ReasonPending, Message: "waiting for its turn"}
		} else if recorder := t.index.Profiles.Recorder(pod.Spec.SchedulerName); recorder != nil && v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
			if !report.Again {
				// The event does not name the blocking drivers, because they change often. The
				// condition names them.
				recorder.Eventf(pod, nil, corev1.EventTypeNormal, v.Reason, "Scheduling", "the pod waits: %s", v.Message)
			}
		} else if recorder != nil && v.Reason != v1alpha1.ReasonPending {
			recorder.Eventf(pod, nil, corev1.EventTypeWarning, v.Reason, "Scheduling", "the pod waits: %s", v.Message)
		}
		t.statuses.Say(pod, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: v.Reason, Message: v.Message,
			ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled),
		})
	}
}

// ReportTurns reports to users whose work has waited long for its first turn. After the first turn,
// other reports have the reason. ReportTurns also updates the metrics. The main loop calls it.
func (t *Reporter) ReportTurns() {
	picked, waiting := t.turns.Unreported(t.clock.Now())
	sum := 0
	for _, n := range waiting {
		sum += n
	}
	t.metrics.Waiting(sum)
	t.metrics.Promised(t.reserved.Len(), t.reserved.Oldest(t.clock.Now()))
	t.metrics.At(t.clock.Now())
	for _, w := range picked {
		message := fmt.Sprintf("%s; %d gangs and pods wait in Queue %q, and go by priority, then age", HoldForTurn, waiting[w.Queue], w.Queue)
		if w.Key.Gang {
			// The gang has passed the gate, so the gate's verdict is stale.
			if v := t.gangs.Verdict(w.Key); v == (gang.Verdict{}) || cluster.IsGateReason(v.Reason) {
				t.gangs.SetVerdict(w.Key, gang.Verdict{Reason: v1alpha1.ReasonPending, Message: message})
			}
			continue
		}
		pod, ok := t.index.PodOf(w.Key)
		if !ok || pod.Spec.NodeName != "" {
			continue
		}
		if recorder := t.index.Profiles.Recorder(pod.Spec.SchedulerName); recorder != nil {
			recorder.Eventf(pod, nil, corev1.EventTypeNormal, "WaitingForTurn", "Scheduling", "%s", message)
		}
	}
}
