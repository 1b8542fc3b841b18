package podstatus

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Nomination is the node to write to status.nominatedNodeName of a pending pod.
type Nomination struct {
	// Pod is the pod as the scheduler has cached it.
	Pod *corev1.Pod
	// Node is the name of the node. If it is empty, the nomination is removed from the pod.
	Node string
	// Saying is a condition to write in the same call as the node; nil for none. If the API already
	// has the node, there is no call, and the condition is not written.
	Saying *corev1.PodCondition
	// ByFramework is true if the framework will write the nomination at the end of the pod's
	// scheduling cycle.
	ByFramework bool
}

// Claim represents a recorded nomination that may not be in the API yet. The owner of a Claim must
// pass it to Write or Drop.
type Claim struct {
	// Pod is the pod that was passed to Nominate.
	Pod  *corev1.Pod
	slot *slot
}

// Nominate records nominations. It returns a claim for each nomination that the caller must write.
// The caller must pass each claim to Write or Drop. Nominate makes no call. If a pod has several
// nominations, the last recorded one is written.
func (w *Writer) Nominate(nominations []Nomination) []Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	var claims []Claim
	for _, n := range nominations {
		if _, ok := w.slots[n.Pod.UID]; !ok && n.Pod.Status.NominatedNodeName == n.Node {
			continue
		}
		s := w.slotOf(n.Pod)
		s.node, s.saying = n.Node, n.Saying
		if !n.ByFramework && (s.node != s.writtenNode || !s.isIdle()) {
			s.users++
			claims = append(claims, Claim{Pod: n.Pod, slot: s})
		}
	}
	return claims
}

// Write writes the latest status of the claim's pod. After an error, the Writer tries again later,
// as long as the pod exists.
func (w *Writer) Write(ctx context.Context, c Claim) error {
	defer w.release(c.slot)
	err := w.write(ctx, c.slot)
	if err != nil {
		w.again(c.slot, err)
	}
	return err
}

// Drop releases claims without writing them.
func (w *Writer) Drop(claims []Claim) {
	for _, c := range claims {
		w.release(c.slot)
	}
}
