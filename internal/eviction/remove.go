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
	pods     kubernetes.Interface
	clock    clock.PassiveClock
	refusals *Refusals
}

// victimPod is a pod that has to go.
type victimPod struct {
	namespace, name, node string
	uid                   types.UID
	message               string
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
	became, err := r.try(ctx, pod, proceed)
	switch became {
	case accepted:
		r.refusals.deleted(pod.uid)
	case absent:
		r.refusals.Forget(pod.uid)
	case untouched:
		err = r.note(pod, err)
	case uncertain:
	}
	return became, err
}

// try is remove without the memory of refusals.
func (r *remover) try(ctx context.Context, pod victimPod, proceed func() bool) (removal, error) {
	if err := r.mark(ctx, pod, metav1.PatchOptions{}); err != nil {
		if r.hasGone(ctx, pod, err) {
			return absent, nil
		}
		return untouched, fmt.Errorf("set condition %s: %w", corev1.DisruptionTarget, err)
	}
	if !proceed() {
		return untouched, nil
	}
	err := r.delete(ctx, pod, metav1.DeleteOptions{})
	switch {
	case err == nil:
		klog.FromContext(ctx).V(6).Info("Deleted a victim", "pod", pod.ref())
		return accepted, nil
	case r.hasGone(ctx, pod, err):
		return absent, nil
	case podstatus.IsRefused(err) || isDenied(err) && !isUnasked(err):
		return untouched, fmt.Errorf("delete: %w", err)
	case isUnasked(err):
		// Then nothing has been done, and nothing will be.
		became := r.after(ctx, pod)
		if became == accepted || became == absent {
			return became, nil
		}
		return became, fmt.Errorf("delete: %w", err)
	default:
		return uncertain, fmt.Errorf("delete: %w", err)
	}
}

// probe reports why the API server would not have a pod removed, without any trace; nil where it would, or the pod has gone.
func (r *remover) probe(ctx context.Context, pod victimPod) error {
	dry := []string{metav1.DryRunAll}
	err := r.mark(ctx, pod, metav1.PatchOptions{DryRun: dry})
	if err == nil {
		err = r.delete(ctx, pod, metav1.DeleteOptions{DryRun: dry})
	}
	if err == nil || r.hasGone(ctx, pod, err) {
		return nil
	}
	return r.note(pod, fmt.Errorf("ask whether it may be deleted: %w", err))
}

// note remembers a refusal, and returns an error that says so; other errors it returns as they are.
func (r *remover) note(pod victimPod, err error) error {
	if !isVeto(err) {
		return err
	}
	return refusedError{error: err, protected: r.refusals.Note(pod.namespace, pod.node, pod.uid)}
}

// delete deletes a pod with that UID.
func (r *remover) delete(ctx context.Context, pod victimPod, options metav1.DeleteOptions) error {
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.uid))
	return r.pods.CoreV1().Pods(pod.namespace).Delete(ctx, pod.name, options)
}

// after is what has become of a pod, as the API server has it after a call about it.
func (r *remover) after(ctx context.Context, pod victimPod) removal {
	found, err := find(ctx, r.pods, pod.namespace, pod.name, pod.uid)
	switch {
	case err != nil:
		return uncertain
	case found == nil:
		return absent
	case found.DeletionTimestamp != nil:
		return accepted
	default:
		return untouched
	}
}

// mark sets the pod's DisruptionTarget condition. The UID in the patch keeps it from a pod that has taken the
// name since. A pod that has the condition keeps it: it would be written with a new time, which changes the pod each time that its
// deletion is tried again.
func (r *remover) mark(ctx context.Context, pod victimPod, options metav1.PatchOptions) error {
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
	}, options)
	if err == nil && len(options.DryRun) == 0 {
		klog.FromContext(ctx).V(6).Info("Marked a victim", "pod", pod.ref())
	}
	return err
}

func (r *remover) hasGone(ctx context.Context, pod victimPod, err error) bool {
	return hasGone(ctx, r.pods, pod.namespace, pod.name, pod.uid, err)
}

// hasGone reports whether a call failed because the pod with that UID does not exist any more; one with its name may.
// A conflict may as well be with another client's write, and what is asked first may answer with any code, so it takes a look.
func hasGone(ctx context.Context, pods kubernetes.Interface, namespace, name string, uid types.UID, err error) bool {
	switch {
	case podstatus.IsAnotherPod(err) || apierrors.IsNotFound(err) && !isDenied(err):
		return true
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
		return false
	}
	found, err := find(ctx, pods, namespace, name, uid)
	return err == nil && found == nil
}

// find reads the pod with that UID from the API server; nil where there is none.
func find(ctx context.Context, pods kubernetes.Interface, namespace, name string, uid types.UID) (*corev1.Pod, error) {
	// A list, because a scheduler has no right to get.
	list, err := pods.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.Items, func(pod corev1.Pod) bool { return pod.UID == uid })
	if i < 0 {
		return nil, nil
	}
	return &list.Items[i], nil
}
