package podstatus

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

var _ fwk.APICacher = (*Writer)(nil)

// PatchPodStatus records the status that the framework sets for a pod. The status is the reason why
// the pod is not scheduled, or the node that is nominated for the pod. The channel has a nil error
// at once, before the status is written.
func (w *Writer) PatchPodStatus(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	w.note(pod, conditions, nominating)
	return finished(nil), nil
}

// Say records a condition of a pod from outside the pod's scheduling cycle. It makes no call
// itself. For each type of condition, the Writer writes the latest condition, from Say or from a
// cycle.
func (w *Writer) Say(pod *corev1.Pod, condition corev1.PodCondition) {
	w.note(pod, []*corev1.PodCondition{&condition}, nil)
}

// Bound records that a component has bound the pod with the UID. The Writer writes no more statuses
// of the pod.
func (w *Writer) Bound(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.slots[uid]; s != nil {
		s.bound, s.shown = true, true
	}
}

func (w *Writer) note(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	s := w.slotOf(pod)
	if nominating.Mode() == fwk.ModeOverride {
		s.node = nominating.NominatedNodeName
	}
	for _, c := range conditions {
		s.conditions = setCondition(s.conditions, *c)
		if s.saying != nil && s.saying.Type == c.Type {
			s.saying = nil
		}
	}
	switch {
	case len(s.missing()) == 0:
	case len(conditions) == 0 && s.node != "":
		s.queued = true
		w.nominations.AddAfter(pod.UID, holdDelay)
	case s.node != s.writtenNode:
		s.queued = true
		w.nominations.Add(pod.UID)
	default:
		s.queued = true
		w.conditions.Add(pod.UID)
	}
}

// BindPod binds a pod and returns when the call is complete. After that, the Writer writes no
// status of the pod. It ignores a status from a goroutine that has not seen the binding.
func (w *Writer) BindPod(binding *corev1.Binding) (<-chan error, error) {
	s := w.claimForBinding(binding)
	defer w.release(s)
	if err := s.lock(w.ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	err := w.bindings.CoreV1().Pods(binding.Namespace).Bind(w.ctx, w.annotated(binding), metav1.CreateOptions{})
	w.mu.Lock()
	defer w.mu.Unlock()
	// If the binding failed, the framework records the reason as the next status.
	s.conditions, s.saying = nil, nil
	s.bound = err == nil || s.shown
	return finished(err), nil
}

// annotated returns a binding with further annotations for its pod. The API server copies the
// annotations of a binding to the pod.
func (w *Writer) annotated(binding *corev1.Binding) *corev1.Binding {
	if w.annotations == nil {
		return binding
	}
	more := w.annotations(binding.UID)
	if len(more) == 0 {
		return binding
	}
	out := binding.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = make(map[string]string, len(more))
	}
	maps.Copy(out.Annotations, more)
	return out
}

// claimForBinding returns the slot of the pod of a binding, and marks the pod as bound.
func (w *Writer) claimForBinding(binding *corev1.Binding) *slot {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	s, ok := w.slots[binding.UID]
	if !ok {
		s = newSlot(binding.Namespace, binding.Name, binding.UID)
		w.slots[binding.UID] = s
	}
	s.bound = true
	s.users++
	return s
}

// WaitOnFinish waits for the result of a call and returns it. If ctx ends earlier, it returns the
// error of ctx.
func (w *Writer) WaitOnFinish(ctx context.Context, onFinish <-chan error) error {
	select {
	case err := <-onFinish:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func finished(err error) <-chan error {
	done := make(chan error, 1)
	done <- err
	return done
}
