package scheduler

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inputs"
)

// Recorder records the inputs of decisions, for replays. Its methods must not block.
type Recorder interface {
	// Heard records that the informer has delivered a version of a pod, or its deletion. Later
	// decisions depend on it. The scheduler's event handlers call it.
	Heard(pod *corev1.Pod, exists bool)
	// Looks records that a scheduling cycle is about to read the state. The decision of this cycle
	// does not depend on events that come after the call.
	Looks()
	// Seen records the inputs of a decision, and must be called in the cycle of the decision. It
	// returns the number of the record; 0 if nothing was recorded.
	Seen(seen *inputs.Seen) uint64
}

// noRecorder is a Recorder that records nothing.
type noRecorder struct{}

// Heard does nothing.
func (noRecorder) Heard(*corev1.Pod, bool) {}

// Looks does nothing.
func (noRecorder) Looks() {}

// Seen does nothing.
func (noRecorder) Seen(*inputs.Seen) uint64 { return 0 }

// recordInputs records the inputs of a decision, if recording is on. It skips decisions that fit
// without evictions. It also skips preemptors in a pause, because the inputs do not contain pauses.
func (p *Plugin) recordInputs(made *cycleDecision) *cycleDecision {
	if p.sched.recorder == (noRecorder{}) || made.pre.pause != nil || made.decision.Outcome == core.Fits && !made.pre.atLimit {
		return made
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return made
	}
	seen := &inputs.Seen{
		Now: time.Unix(0, made.decision.Preemptor.Now), Nodes: nodes, Pods: made.pre.pods, Leaving: made.view.Unannounced(),
	}
	for i := range made.view.promised {
		promised := &made.view.promised[i]
		// Skip nominations that the preemptor need not respect. The decision ignored them, but a
		// replay would treat them as reservations.
		if promised.Reserved || isKept(promised, &made.pre) {
			seen.Promised = append(seen.Promised, inputs.ReservedRoom{Pod: promised.Pod.GetPod(), Node: promised.Node})
		}
	}
	for _, r := range made.view.own {
		seen.Promised = append(seen.Promised, inputs.ReservedRoom{Pod: cluster.PodIn(r), Node: r.Node})
	}
	slices.SortFunc(seen.Promised, func(a, b inputs.ReservedRoom) int { return cmp.Compare(a.Pod.UID, b.Pod.UID) })
	made.inputs = p.sched.recorder.Seen(seen)
	return made
}

// Finished returns the informer for finished members of groups. The scheduler's own informer leaves
// finished pods out.
func (h *Scheduler) Finished() cache.SharedIndexInformer { return h.finished }
