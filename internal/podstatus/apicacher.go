package podstatus

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

var _ fwk.APICacher = (*Writer)(nil)

// PatchPodStatus takes note of what the framework has to say of a pod: that it found no room, or where a pod goes that
// waits for others. The channel says that it has been noted; nobody waits for the call.
func (w *Writer) PatchPodStatus(pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	s := w.slotOf(pod)
	if nominating.Mode() == fwk.ModeOverride {
		s.node = nominating.NominatedNodeName
	}
	if condition != nil {
		s.condition = condition.DeepCopy()
	}
	switch {
	case len(s.missing()) == 0:
	case condition == nil && s.node != "":
		s.queued = true
		w.nominations.AddAfter(pod.UID, holdDelay)
	case s.node != s.writtenNode:
		s.queued = true
		w.nominations.Add(pod.UID)
	default:
		s.queued = true
		w.conditions.Add(pod.UID)
	}
	return finished(nil), nil
}

// BindPod binds a pod, and returns when that is done. Nothing that was said of it before comes after it.
func (w *Writer) BindPod(binding *corev1.Binding) (<-chan error, error) {
	w.mu.Lock()
	s := w.slots[binding.UID]
	if s != nil {
		s.bound = true
	}
	w.mu.Unlock()
	if s != nil {
		if err := s.lock(w.ctx); err != nil {
			return nil, err
		}
		defer s.unlock()
	}
	err := w.bindings.CoreV1().Pods(binding.Namespace).Bind(w.ctx, binding, metav1.CreateOptions{})
	if s != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		// Whoever fails with it says why.
		s.condition = nil
		if s.bound = err == nil; s.bound {
			delete(w.slots, binding.UID)
		}
	}
	return finished(err), nil
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
