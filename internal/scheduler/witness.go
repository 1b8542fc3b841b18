package scheduler

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inputs"
)

// Witness writes down what decisions go by. It must not wait for anything.
type Witness interface {
	// Heard takes note of a pod that counts as it is from now on, or counts no more: the scheduler hears of pods when its informer
	// gets round to it. What tells the scheduler calls it.
	Heard(pod *corev1.Pod, exists bool)
	// Looks is called by a scheduling cycle that is about to look at how things stand. What is heard after that is no part of what
	// its decision goes by.
	Looks()
	// Seen is called by the same cycle. It takes note of what a decision went by, and returns the number under which that is found; 0 where it is not written.
	Seen(seen *inputs.Seen) uint64
}

// unwitnessed is the Witness where nothing is written down.
type unwitnessed struct{}

// Heard is part of Witness.
func (unwitnessed) Heard(*corev1.Pod, bool) {}

// Looks is part of Witness.
func (unwitnessed) Looks() {}

// Seen is part of Witness.
func (unwitnessed) Seen(*inputs.Seen) uint64 { return 0 }

// witnessed has what a decision went by written down, where that is asked for. What finds room at once is no part of the record, and no
// inputs show that a preemptor backs off.
func (p *Plugin) witnessed(made *cycleDecision) *cycleDecision {
	if p.hub.witness == (unwitnessed{}) || made.pre.pause != nil || made.decision.Outcome == core.Fits && !made.pre.atLimit {
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
		// Of a nomination that need not be left nothing has been counted, and a replay would take it for a reservation.
		if promised.Reserved || isKept(promised, &made.pre) {
			seen.Promised = append(seen.Promised, inputs.PromisedRoom{Pod: promised.Pod.GetPod(), Node: promised.Node})
		}
	}
	for _, r := range made.view.own {
		seen.Promised = append(seen.Promised, inputs.PromisedRoom{Pod: r.Pod.GetPod(), Node: r.Node})
	}
	slices.SortFunc(seen.Promised, func(a, b inputs.PromisedRoom) int { return cmp.Compare(a.Pod.UID, b.Pod.UID) })
	made.inputs = p.hub.witness.Seen(seen)
	return made
}

// Finished is an informer of the members of groups that have finished, which the scheduler's own leaves out.
func (h *Hub) Finished() cache.SharedIndexInformer { return h.finished }
