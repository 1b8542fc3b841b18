package eviction

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// remover deletes pods, and records the reason in a condition of each.
type remover struct {
	pods     kubernetes.Interface
	clock    clock.PassiveClock
	refusals *Refusals
	// maxGrace returns the longest grace period of victims. It is nil if there is no maximum.
	maxGrace func() time.Duration
}

// victimPod is a pod to delete.
type victimPod struct {
	namespace, name, node string
	uid                   types.UID
	message               string
	// grace is the terminationGracePeriodSeconds of the pod; nil if it is not known.
	grace *int64
	// conditions has the last known conditions of the pod; empty if they are not known.
	conditions []corev1.PodCondition
}

// ref identifies the pod in log lines.
func (p victimPod) ref() klog.ObjectRef { return klog.KRef(p.namespace, p.name) }

// removal is the result of the removal of a pod.
type removal int

const (
	// untouched means that there is no sign that the pod terminates.
	untouched removal = iota
	// uncertain means that the delete call failed, but may have succeeded in the API server.
	uncertain
	// accepted means that the delete call succeeded, or that the pod terminates already.
	accepted
	// absent means that the pod with this UID no longer exists, or has finished.
	absent
)

// remove sets the DisruptionTarget condition of a pod and deletes the pod, with its grace period or
// with the maximum. It is not an error if the pod no longer exists, or if another pod has its name
// now. remove calls proceed right before the delete. If proceed returns false, the pod is not
// deleted.
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

// try does the work of remove, but does not record refusals.
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
	case podstatus.IsRefused(err) || isTooLarge(err) || isDenied(err) && !isUnasked(err):
		return untouched, fmt.Errorf("delete: %w", err)
	case isUnasked(err):
		// The API server did not delete the pod. Read the pod, because it may terminate or be gone
		// for another reason.
		became := r.after(ctx, pod)
		if became == accepted || became == absent {
			return became, nil
		}
		return became, fmt.Errorf("delete: %w", err)
	default:
		return uncertain, fmt.Errorf("delete: %w", err)
	}
}

// probe tests by dry run whether a pod can be marked and deleted. It returns the refusal, or nil if
// the pod can be deleted or no longer exists.
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

// note records a refusal in Refusals and returns it as a refusedError. It returns any other error
// unchanged.
func (r *remover) note(pod victimPod, err error) error {
	switch {
	case isOfObject(err):
		return r.noteObject(pod, err)
	case !isVeto(err):
		return err
	default:
		return refusedError{error: err, protected: r.refusals.Note(pod.namespace, pod.node, pod.uid)}
	}
}

// noteObject records a refusal that comes from the pod or its PodGroup, and returns it as a
// refusedError.
func (r *remover) noteObject(pod victimPod, err error) error {
	r.refusals.NoteObject(pod.namespace, pod.node, pod.uid)
	return refusedError{error: err, protected: true}
}

// delete deletes the pod, with its UID as precondition.
//
// The grace period is at most maxGrace, because decisions do not wait longer for the room of a
// victim. A victim that terminates for longer would cause the eviction of other work.
func (r *remover) delete(ctx context.Context, pod victimPod, options metav1.DeleteOptions) error {
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.uid))
	if r.maxGrace != nil && pod.grace != nil {
		if longest := int64(r.maxGrace() / time.Second); *pod.grace > longest {
			options.GracePeriodSeconds = &longest
		}
	}
	return r.pods.CoreV1().Pods(pod.namespace).Delete(ctx, pod.name, options)
}

// after returns the result of a removal. It reads the pod from the API server after the call.
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

// mark sets the DisruptionTarget condition of the pod. The patch contains the UID, so that it
// cannot change a new pod with the same name. If the pod already has the condition, mark writes
// nothing. A condition with a new time would change the pod at each try.
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

// hasGone reports whether a call failed because the pod with this UID no longer exists. A conflict
// may come from a change by another client, and a webhook may return any code. If the error does
// not decide, hasGone reads the pod from the API server.
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

// find reads the pod with this UID from the API server; nil if it does not exist.
func find(ctx context.Context, pods kubernetes.Interface, namespace, name string, uid types.UID) (*corev1.Pod, error) {
	// Use list, because schedulers lack the permission to get pods.
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
