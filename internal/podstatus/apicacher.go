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
	if w.note(pod, condition, nominating) {
		if condition == nil && nominating.NominatedNodeName != "" {
			w.queue.AddAfter(pod.UID, holdDelay)
		} else {
			w.queue.Add(pod.UID)
		}
	}
	return finished(nil), nil
}

// note reports whether there is something to write.
func (w *Writer) note(pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweep()
	s, ok := w.slots[pod.UID]
	if !ok {
		s = w.add(pod)
	}
	s.used = w.clock.Now()
	if nominating.Mode() == fwk.ModeOverride {
		s.wanted = nominating.NominatedNodeName
	}
	if condition != nil {
		s.say(condition)
	}
	status, _, _ := s.missing()
	return len(status) > 0
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
		// What it waited for is said again by whoever fails with it.
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
