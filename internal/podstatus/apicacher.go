package podstatus

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

var _ fwk.APICacher = (*Writer)(nil)

// PatchPodStatus takes note of what the framework has to say of a pod: that it found no room, or where a pod goes that
// waits for others. The channel says that it has been noted, not that it has been written.
func (w *Writer) PatchPodStatus(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	w.note(pod, conditions, nominating)
	return finished(nil), nil
}

// Say takes note of a condition of a pod that the scheduler has something to say of outside of the pod's own cycle. It makes
// no call. Of what is said here and in cycles, the last is written.
func (w *Writer) Say(pod *corev1.Pod, condition corev1.PodCondition) {
	w.note(pod, []*corev1.PodCondition{&condition}, nil)
}

// Bound takes note that a pod has its node, whatever has bound it: nothing more is written about it.
func (w *Writer) Bound(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.slots[uid]; s != nil {
		s.bound = true
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

// BindPod binds a pod, and returns when that is done. Nothing that was said of it before comes after it, nor what is said by a
// goroutine that has not heard of the binding yet.
func (w *Writer) BindPod(binding *corev1.Binding) (<-chan error, error) {
	s := w.claimForBinding(binding)
	defer w.release(s)
	if err := s.lock(w.ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	err := w.bindings.CoreV1().Pods(binding.Namespace).Bind(w.ctx, binding, metav1.CreateOptions{})
	w.mu.Lock()
	defer w.mu.Unlock()
	// The framework says why the binding failed.
	s.conditions, s.saying = nil, nil
	s.bound = err == nil
	return finished(err), nil
}

// claimForBinding is the slot of a pod that is being bound.
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

// WaitOnFinish returns the result of a call.
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
