package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// actionResolving is the action of events about fields that cannot be filled in.
const actionResolving = "Resolving"

// Resolver fills in the fields that users leave empty in the spec of a PodGroup. First it copies
// fields from the PodGroup's template, then it fills in the values of the PriorityClass (KEP-5710,
// "Pod Group priorities"). If a field cannot be filled in, the members of the group stay gated. The
// Resolver records the reason, and the status controller reports it.
type Resolver struct {
	client   client.Client
	filler   *Filler
	gangs    *engine.Gangs
	recorder events.EventRecorder
}

var _ reconcile.Reconciler = (*Resolver)(nil)

// NewResolver returns a Resolver that writes with c and finds PriorityClasses in classes. If fields
// cannot be filled in, it records the reason in gangs and reports it to users with recorder.
func NewResolver(c client.Client, classes schedulinglisters.PriorityClassLister, gangs *engine.Gangs, recorder events.EventRecorder) *Resolver {
	return &Resolver{client: c, filler: NewFiller(c, classes), gangs: gangs, recorder: recorder}
}

// Reconcile fills in the empty fields of one PodGroup.
func (r *Resolver) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var pg v1alpha1.PodGroup
	if err := r.client.Get(ctx, req.NamespacedName, &pg); err != nil {
		if apierrors.IsNotFound(err) {
			r.gangs.SetUnresolved(gang.KeyOf(req.NamespacedName), gang.Verdict{})
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pg.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	before := pg.DeepCopy()
	lacks, err := r.filler.Fill(ctx, &pg)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("fill in PodGroup %s: %w", req, err)
	}
	var again error
	if changedPolicy(&before.Spec.PodGroupPolicy, &pg.Spec.PodGroupPolicy) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		filled := pg.DeepCopy()
		err := r.client.Patch(ctx, &pg, patch)
		if apierrors.IsInvalid(err) && withoutName(&before.Spec.PodGroupPolicy, &filled.Spec.PodGroupPolicy) {
			err = r.client.Patch(ctx, filled, patch)
		}
		switch {
		case err == nil:
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return retryConflict(fmt.Errorf("fill in PodGroup %s: %w", req, err))
		case apierrors.IsInvalid(err):
			// The fields that the user set contradict the fields of the template. A retry does not
			// help.
			lacks = gang.Verdict{
				Reason:  v1alpha1.ReasonInvalidTemplate,
				Message: fmt.Sprintf("PodGroup %s cannot take over the fields of its template: %v", req, err),
			}
		default:
			// Users may be able to remove the cause of the error, so report the error to them too.
			again = fmt.Errorf("fill in PodGroup %s: %w", req, err)
			lacks = gang.Verdict{Reason: v1alpha1.ReasonNotFilledIn, Message: fmt.Sprintf("PodGroup %s cannot be filled in: %v", req, err)}
		}
	}
	if r.gangs.SetUnresolved(gang.KeyOf(req.NamespacedName), lacks) && lacks != (gang.Verdict{}) {
		// Set the kind, because an event needs the kind of its object, and a client leaves the kind
		// of an object empty.
		before.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("PodGroup"))
		r.recorder.Eventf(before, nil, corev1.EventTypeWarning, lacks.Reason, actionResolving, "%s", lacks.Message)
	}
	return reconcile.Result{}, again
}

// clash returns a verdict if fields of a group contradict fields of its template; otherwise zero.
func clash(pg *v1alpha1.PodGroup, template *v1alpha1.PodGroupTemplate) gang.Verdict {
	policy, mode, constraints := pg.Spec.SchedulingPolicy, pg.Spec.DisruptionMode, pg.Spec.SchedulingConstraints
	if policy == nil {
		policy = template.SchedulingPolicy
	}
	if mode == nil {
		mode = template.DisruptionMode
	}
	if constraints == nil {
		constraints = template.SchedulingConstraints
	}
	if policy == nil || policy.Basic == nil {
		return gang.Verdict{}
	}
	ref := pg.Spec.PodGroupTemplateRef
	whose := func(own bool) string {
		if own {
			return "its own"
		}
		return "that of template " + ref.PodGroupTemplateName + " of Workload " + ref.WorkloadName
	}
	switch {
	case constraints != nil:
		return gang.Verdict{
			Reason: v1alpha1.ReasonInvalidTemplate,
			Message: fmt.Sprintf("PodGroup %s/%s cannot require a topology domain: its schedulingConstraints (%s) take the gang scheduling policy, and its schedulingPolicy (%s) is basic",
				pg.Namespace, pg.Name, whose(pg.Spec.SchedulingConstraints != nil), whose(pg.Spec.SchedulingPolicy != nil)),
		}
	case ptr.Deref(mode, v1alpha1.DisruptionModePod) == v1alpha1.DisruptionModeNever:
		return gang.Verdict{
			Reason: v1alpha1.ReasonInvalidTemplate,
			Message: fmt.Sprintf("PodGroup %s/%s cannot be protected from preemption: its disruptionMode Never (%s) takes the gang scheduling policy, and its schedulingPolicy (%s) is basic; create the PodGroup again with a gang policy or the disruptionMode Pod",
				pg.Namespace, pg.Name, whose(pg.Spec.DisruptionMode != nil), whose(pg.Spec.SchedulingPolicy != nil)),
		}
	case ptr.Deref(mode, v1alpha1.DisruptionModePod) != v1alpha1.DisruptionModePodGroup:
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason: v1alpha1.ReasonInvalidTemplate,
		Message: fmt.Sprintf("PodGroup %s/%s cannot be disrupted as a whole: its disruptionMode PodGroup (%s) takes the gang scheduling policy, and its schedulingPolicy (%s) is basic",
			pg.Namespace, pg.Name, whose(pg.Spec.DisruptionMode != nil), whose(pg.Spec.SchedulingPolicy != nil)),
	}
}

func noSuchClass(pg *v1alpha1.PodGroup) gang.Verdict {
	return gang.Verdict{
		Reason: v1alpha1.ReasonPriorityClassNotFound,
		Message: fmt.Sprintf("PodGroup %s/%s waits for PriorityClass %q, which gives it its priority and does not exist",
			pg.Namespace, pg.Name, ptr.Deref(pg.Spec.PriorityClassName, "")),
	}
}

// takeOver copies fields of a template's policy to empty fields of a group's policy. If both have
// the same class, the priority is copied too, even if the value of the class has changed since.
// takeOver returns false if the template should have a priority and does not yet.
func takeOver(to, from *v1alpha1.PodGroupPolicy) bool {
	if to.SchedulingPolicy == nil {
		to.SchedulingPolicy = from.SchedulingPolicy
	}
	if to.DisruptionMode == nil {
		to.DisruptionMode = from.DisruptionMode
	}
	if to.PriorityClassName == nil {
		to.PriorityClassName = from.PriorityClassName
	}
	if to.QueueName == nil {
		to.QueueName = from.QueueName
	}
	if to.ParentCompositePodGroupName == nil {
		to.ParentCompositePodGroupName = from.ParentCompositePodGroupName
	}
	if to.PreemptionPriorityClassName == nil {
		to.PreemptionPriorityClassName = from.PreemptionPriorityClassName
	}
	if to.SchedulingConstraints == nil {
		to.SchedulingConstraints = from.SchedulingConstraints
	}
	if to.Priority != nil || !ptr.Equal(to.PriorityClassName, from.PriorityClassName) {
		return true
	}
	if from.Priority == nil || from.PreemptionPolicy == nil {
		return false
	}
	to.Priority = from.Priority
	if to.PreemptionPolicy == nil {
		to.PreemptionPolicy = from.PreemptionPolicy
	}
	return true
}

// changedPolicy reports whether any field was empty before and is not empty after.
func changedPolicy(before, after *v1alpha1.PodGroupPolicy) bool {
	return before.Priority == nil && after.Priority != nil ||
		before.PreemptionPolicy == nil && after.PreemptionPolicy != nil ||
		before.SchedulingPolicy == nil && after.SchedulingPolicy != nil ||
		before.DisruptionMode == nil && after.DisruptionMode != nil ||
		before.PriorityClassName == nil && after.PriorityClassName != nil ||
		before.QueueName == nil && after.QueueName != nil ||
		before.ParentCompositePodGroupName == nil && after.ParentCompositePodGroupName != nil ||
		before.SchedulingConstraints == nil && after.SchedulingConstraints != nil ||
		before.PreemptionPriorityClassName == nil && after.PreemptionPriorityClassName != nil
}

// retryConflict converts an error of a write into the result of Reconcile. After a conflict, it
// requests a retry, because the cache may show the newer version by then. It ignores NotFound, and
// returns other errors.
func retryConflict(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// mismatch returns a pod whose priority differs from the group's; nil for none. Of several such
// pods, it returns the first by name.
func mismatch(pods []*corev1.Pod, priority *int32) *corev1.Pod {
	if priority == nil {
		return nil
	}
	var worst *corev1.Pod
	for _, pod := range pods {
		if ptr.Deref(pod.Spec.Priority, 0) != *priority && (worst == nil || pod.Name < worst.Name) {
			worst = pod
		}
	}
	return worst
}
