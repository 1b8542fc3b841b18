package podstatus

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Nomination says on which node a pending pod is expected.
type Nomination struct {
	// Pod is the pod as the scheduler knows it.
	Pod *corev1.Pod
	// Node is the node's name, "" for none.
	Node string
	// Saying is a condition that the call which tells of the node brings along: of its own it causes none. nil for nothing.
	Saying *corev1.PodCondition
	// ByFramework is true where the framework itself tells the API, at the end of the pod's scheduling cycle.
	ByFramework bool
}

// Claim is a nomination that the API may not know of.
type Claim struct {
	// Pod is the pod as the scheduler knew it.
	Pod  *corev1.Pod
	slot *slot
}

// Nominate takes note of nominations, and returns those that are the caller's to write: with Write, or Drop for those
// that it leaves. It makes no call. Of several nominations of one pod, the last that was noted here is what is written.
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

// Write makes the API say what was said last of a pod. After an error, that is tried again later as long as the pod exists.
func (w *Writer) Write(ctx context.Context, c Claim) error {
	defer w.release(c.slot)
	err := w.write(ctx, c.slot)
	if err != nil {
		w.again(c.slot, err)
	}
	return err
}

// Drop gives claims back that are not going to be written.
func (w *Writer) Drop(claims []Claim) {
	for _, c := range claims {
		w.release(c.slot)
	}
}
