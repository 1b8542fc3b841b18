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

// remover deletes pods and records the reason on each.
type remover struct {
	pods     kubernetes.Interface
	clock    clock.PassiveClock
	refusals *Refusals
	// maxGrace returns the longest grace period of victims. It is nil if there is none.
	maxGrace func() time.Duration
}

// victimPod is a pod to delete.
type victimPod struct {
	namespace, name, node string
	uid                   types.UID
	message               string
	// grace is the pod's own grace period in seconds; nil if it is not known.
	grace *int64
	// conditions holds the pod's last known conditions, or none if they are not known.
	conditions []corev1.PodCondition
}

// ref identifies the pod in log lines.
func (p victimPod) ref() klog.ObjectRef { return klog.KRef(p.namespace, p.name) }

// removal is the result of the removal of a pod.
type removal int

const (
	// untouched means that nothing shows that the pod terminates.
	untouched removal = iota
	// uncertain means that the delete call failed and may have succeeded in the API server.
	uncertain
	// accepted means that the pod terminates.
	accepted
	// absent means that no pod with the UID exists any more, or that the pod has finished.
	absent
)

// remove marks a pod and deletes it with the pod's own grace period, or with the longest that
// victims get. A pod that is gone, or whose name belongs to another pod now, is not an error.
// proceed is called right before the delete and can stop it.
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

// try does the work of remove without recording refusals.
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
		// The API server has refused the change, so look at the pod's state.
		became := r.after(ctx, pod)
		if became == accepted || became == absent {
			return became, nil
		}
		return became, fmt.Errorf("delete: %w", err)
	default:
		return uncertain, fmt.Errorf("delete: %w", err)
	}
}

// probe asks the API server by dry run whether a pod can be marked and deleted. It returns the
// refusal, or nil if the pod can be deleted or is gone.
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

// note records a refusal and returns it as a refusedError. It returns other errors unchanged.
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

// noteObject records a refusal because of the pod or its PodGroup, and returns it as a
// refusedError.
func (r *remover) noteObject(pod victimPod, err error) error {
	r.refusals.NoteObject(pod.namespace, pod.node, pod.uid)
	return refusedError{error: err, protected: true}
}

// delete deletes the pod with the UID.
//
// A decision does not count on room that comes later than the longest grace period. So the victim
// must end by then: otherwise the scheduler would evict other work while this victim still runs.
func (r *remover) delete(ctx context.Context, pod victimPod, options metav1.DeleteOptions) error {
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.uid))
	if r.maxGrace != nil && pod.grace != nil {
		if longest := int64(r.maxGrace() / time.Second); *pod.grace > longest {
			options.GracePeriodSeconds = &longest
		}
	}
	return r.pods.CoreV1().Pods(pod.namespace).Delete(ctx, pod.name, options)
}

// after reads the pod from the API server after a call and returns the result of the removal.
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

// mark sets the pod's DisruptionTarget condition. The UID in the patch protects a new pod of the
// same name. If the pod has the condition already, mark writes nothing: a new time would change the
// pod at each try.
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

// hasGone reports whether a call failed because the pod with the UID does not exist any more. A
// conflict may also come from another client's write, and a webhook may answer with any code. In
// these cases hasGone reads the pod from the API server.
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

// find reads the pod with the UID from the API server. It returns nil if there is none.
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
