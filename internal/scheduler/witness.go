package scheduler

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
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
	Seen(seen *Seen) uint64
}

// Seen is what a decision went by, as far as it is the scheduler's own: all else are objects of the API.
type Seen struct {
	// Now is the moment that the decision went by.
	Now time.Time
	// Nodes are those of the cycle's snapshot, and Pods the pending pods that the decision was for. They must not be changed.
	Nodes []fwk.NodeInfo
	Pods  []*corev1.Pod
	// Promised is all room that is promised, by pod, and Leaving are the pods that evictions of this process take, in order.
	Promised []PromisedRoom
	Leaving  []types.UID
}

// PromisedRoom is the node of a pod that waits for its place.
type PromisedRoom struct {
	Pod  *corev1.Pod
	Node string
}

// unwitnessed is the Witness where nothing is written down.
type unwitnessed struct{}

// Heard is part of Witness.
func (unwitnessed) Heard(*corev1.Pod, bool) {}

// Looks is part of Witness.
func (unwitnessed) Looks() {}

// Seen is part of Witness.
func (unwitnessed) Seen(*Seen) uint64 { return 0 }

// witnessed has what a decision went by written down, where that is asked for. What finds room at once is no part of the record.
func (p *Plugin) witnessed(made *cycleDecision) *cycleDecision {
	if p.hub.witness == (unwitnessed{}) || made.decision.Outcome == core.Fits && !made.pre.atLimit {
		return made
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return made
	}
	seen := &Seen{
		Now: time.Unix(0, made.decision.Preemptor.Now), Nodes: nodes, Pods: made.pre.pods, Leaving: slices.Sorted(slices.Values(made.view.taken)),
	}
	for _, promised := range made.view.promised {
		seen.Promised = append(seen.Promised, PromisedRoom{Pod: promised.Pod.GetPod(), Node: promised.Node})
	}
	slices.SortFunc(seen.Promised, func(a, b PromisedRoom) int { return cmp.Compare(a.Pod.UID, b.Pod.UID) })
	made.inputs = p.hub.witness.Seen(seen)
	return made
}

// Finished is an informer of the members of groups that have finished, which the scheduler's own leaves out.
func (h *Hub) Finished() cache.SharedIndexInformer { return h.finished }
