package eviction

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

// remover deletes pods, and says on each why.
type remover struct {
	pods  kubernetes.Interface
	clock clock.PassiveClock
}

// victimPod is a pod that has to go.
type victimPod struct {
	namespace, name string
	uid             types.UID
	message         string
	// conditions are those that it was seen with; none where that is not known.
	conditions []corev1.PodCondition
}

// ref names the pod in log lines.
func (p victimPod) ref() klog.ObjectRef { return klog.KRef(p.namespace, p.name) }

// removal is what became of a victim pod.
type removal int

const (
	// untouched: nothing says that the pod goes.
	untouched removal = iota
	// uncertain: the call to delete it failed in a way that does not say whether it has come through.
	uncertain
	// accepted: it is on its way out.
	accepted
	// absent: no pod with that UID exists any more, or it has ended by itself.
	absent
)

// remove marks a pod and deletes it. A pod that has gone already, or whose name another one has now, is no
// error. Its grace period is its own. Right before the deletion, proceed may still stop it.
func (r *remover) remove(ctx context.Context, pod victimPod, proceed func() bool) (removal, error) {
	if err := r.mark(ctx, pod); err != nil {
		if r.hasGone(ctx, pod, err) {
			return absent, nil
		}
		return untouched, fmt.Errorf("set condition %s: %w", corev1.DisruptionTarget, err)
	}
	if !proceed() {
		return untouched, nil
	}
	err := r.pods.CoreV1().Pods(pod.namespace).Delete(ctx, pod.name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(pod.uid)),
	})
	switch {
	case err == nil:
		klog.FromContext(ctx).V(6).Info("Deleted a victim", "pod", pod.ref())
		return accepted, nil
	case r.hasGone(ctx, pod, err):
		return absent, nil
	case podstatus.IsRefused(err):
		return untouched, fmt.Errorf("delete: %w", err)
	default:
		return uncertain, fmt.Errorf("delete: %w", err)
	}
}

// mark sets the pod's DisruptionTarget condition. The UID in the patch keeps it from a pod that has taken the
// name since. A pod that has the condition keeps it: it would be written with a new time, which changes the pod each time that its
// deletion is tried again.
func (r *remover) mark(ctx context.Context, pod victimPod) error {
	condition := corev1.PodCondition{
		Type:    corev1.DisruptionTarget,
		Status:  corev1.ConditionTrue,
		Reason:  corev1.PodReasonPreemptionByScheduler,
		Message: pod.message,
	}
	if slices.ContainsFunc(pod.conditions, func(c corev1.PodCondition) bool {
		return c.Type == condition.Type && c.Status == condition.Status && c.Reason == condition.Reason && c.Message == condition.Message
	}) {
		return nil
	}
	condition.LastTransitionTime = metav1.NewTime(r.clock.Now())
	err := podstatus.Patch(ctx, r.pods, pod.namespace, pod.name, pod.uid, map[string]any{
		"conditions": []corev1.PodCondition{condition},
	})
	if err == nil {
		klog.FromContext(ctx).V(6).Info("Marked a victim", "pod", pod.ref())
	}
	return err
}

func (r *remover) hasGone(ctx context.Context, pod victimPod, err error) bool {
	return hasGone(ctx, r.pods, pod.namespace, pod.name, pod.uid, err)
}

// hasGone reports whether a call failed because the pod with that UID does not exist any more; one with its name may.
// A conflict may as well be with another client's write, so it takes a look.
func hasGone(ctx context.Context, pods kubernetes.Interface, namespace, name string, uid types.UID, err error) bool {
	switch {
	case apierrors.IsNotFound(err) || podstatus.IsAnotherPod(err):
		return true
	case !apierrors.IsConflict(err):
		return false
	}
	// A list, because a scheduler has no right to get.
	list, err := pods.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	})
	return err == nil && !slices.ContainsFunc(list.Items, func(pod corev1.Pod) bool { return pod.UID == uid })
}
