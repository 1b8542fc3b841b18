package podstatus

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Nomination is the node of a pending pod, for status.nominatedNodeName.
type Nomination struct {
	// Pod is the pod as the scheduler has cached it.
	Pod *corev1.Pod
	// Node is the node's name. "" removes the nomination.
	Node string
	// Saying is a condition to write in the same call as the node; nil for none. It never causes a
	// call by itself.
	Saying *corev1.PodCondition
	// ByFramework is true if the framework writes the nomination at the end of the pod's scheduling
	// cycle.
	ByFramework bool
}

// Claim stands for a nomination that the API may not have yet, and that its holder must write or
// drop.
type Claim struct {
	// Pod is the pod as the scheduler had cached it.
	Pod  *corev1.Pod
	slot *slot
}

// Nominate records nominations and returns a claim for each nomination that the caller must write.
// The caller must pass each claim to Write or Drop. Nominate makes no call. If a pod has several
// nominations, the last one recorded is written.
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

// Write writes the latest status of the claim's pod. After an error, the Writer tries again later
// while the pod exists.
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
