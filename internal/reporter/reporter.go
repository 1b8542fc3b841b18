package reporter

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// Reporter reports to users why pods wait. Use [New] to create a value. Any goroutine may add
// verdicts. The main loop writes the reports.
type Reporter struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	gangs      *engine.Gangs
	records    *engine.Pods
	reserved   *engine.Reservations
	turns      *admission.List
	// statuses writes the conditions.
	statuses Statuses
	metrics  *metrics.Metrics
	clock    clock.PassiveClock
}

// Statuses writes conditions of pending pods outside their scheduling cycles.
type Statuses interface {
	// Say writes a condition of a pod to the API and returns at once. It does nothing if the pod
	// has the condition already or is bound.
	Say(pod *corev1.Pod, condition corev1.PodCondition)
	// Bound records that a pod is bound, so that no further condition is written for the pod.
	Bound(uid types.UID)
}

// New returns a Reporter for the pods in the layers of a cluster. e has the verdicts. statuses
// writes the conditions; nil writes none.
func New(
	index *cluster.Index, placements *cluster.Placements, ledger *cluster.Ledger, e *engine.Engine, statuses Statuses, m *metrics.Metrics, clk clock.PassiveClock,
) *Reporter {
	if statuses == nil {
		statuses = noStatuses{}
	}
	return &Reporter{
		index: index, placements: placements, ledger: ledger, gangs: e.Gangs, records: e.Pods, reserved: e.Reservations,
		turns: e.Turns, statuses: statuses, metrics: m, clock: clk,
	}
}

// maxReports is the maximum number of pods that get a condition in one tick of the main loop.
const maxReports = 100

// Bound records that a pod is bound, so that no further condition is written for the pod.
func (t *Reporter) Bound(uid types.UID) { t.statuses.Bound(uid) }

// noStatuses is a Statuses that writes nothing.
type noStatuses struct{}

// Say is part of Statuses.
func (noStatuses) Say(*corev1.Pod, corev1.PodCondition) {}

// Bound is part of Statuses.
func (noStatuses) Bound(types.UID) {}
