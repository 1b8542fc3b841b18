package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/pauses"
)

// informerOfFinished returns an informer for finished pods of groups. The scheduler's own informer
// leaves finished pods out, but members that succeeded count towards minCount. Call start to run
// the informer until ctx is done.
func (in *Inputs) informerOfFinished(handle framework.Framework) (pods cache.SharedIndexInformer, start func(ctx context.Context)) {
	derived := cluster.DerivedOf(in.Derived, in.Trees)
	factory := informers.NewSharedInformerFactoryWithOptions(handle.ClientSet(), 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			// Select by label only if every member has the label. No label selector finds members
			// by spec.schedulingGroup or by owner.
			if !in.SchedulingGroups && in.Derived == nil {
				o.LabelSelector = v1alpha1.LabelPodGroup
			}
			o.FieldSelector = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
		}),
		informers.WithTransform(func(obj any) (any, error) { return onlyOutcome(obj, derived), nil }),
	)
	return factory.Core().V1().Pods().Informer(), func(ctx context.Context) { factory.Start(ctx.Done()) }
}

// watchFinished registers the handlers for finished members. The returned function reports whether
// the handlers have been called for all members that existed at the start.
func (pw *podWatch) watchFinished() (cache.InformerSynced, error) {
	handler, err := pw.finished.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: pw.memberFinished,
		// While the watch is interrupted, a finished pod may be replaced by a pod of the same name.
		// The informer then reports an update.
		UpdateFunc: func(before, now any) {
			was, ok := before.(*corev1.Pod)
			if is, known := now.(*corev1.Pod); ok && known && was.UID != is.UID {
				pw.deleted(was)
				pw.memberFinished(is)
			}
		},
		DeleteFunc: pw.deleted,
	})
	if err != nil {
		return nil, err
	}
	return handler.HasSynced, nil
}

// onlyOutcome returns a finished pod with only the fields that the scheduler reads. For a pod
// without a group, these are its name, UID, version and outcome.
func onlyOutcome(obj any, derived gang.Derived) any {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj
	}
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
	}}
	out.Status.Phase = pod.Status.Phase
	if pauses.IsDisrupted(pod) {
		out.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	}
	_, named := gang.GroupOf(pod)
	switch {
	case len(derived.AnchorsOf(pod)) > 0:
		out.Labels, out.OwnerReferences = pod.Labels, pod.OwnerReferences
		for _, name := range grouping.PodAnnotations() {
			if value, ok := pod.Annotations[name]; ok {
				metav1.SetMetaDataAnnotation(&out.ObjectMeta, name, value)
			}
		}
	case !named:
		return out
	}
	if name, ok := pod.Labels[v1alpha1.LabelPodGroup]; ok {
		out.Labels = map[string]string{v1alpha1.LabelPodGroup: name}
	}
	out.CreationTimestamp = pod.CreationTimestamp
	out.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, SchedulerName: pod.Spec.SchedulerName, SchedulingGroup: pod.Spec.SchedulingGroup,
	}
	return out
}

// memberFinished handles a finished member. Its gang may now have enough members, so the gang is
// checked again.
func (pw *podWatch) memberFinished(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	pw.pauses.StartEnds(pod)
	pw.pauses.MemberEnds(pod)
	key, ok := pw.index.GroupOf(pod)
	if !ok {
		return
	}
	pw.steps.step(engine.GroupArrives{Group: gangKey(key)})
	pw.gangs.ResultKnown(gangKey(key), string(pod.UID))
	pw.gangs.Touch(gangKey(key))
	pw.memberships.regroup(key)
	pw.ledger.UpdateGroupState(key)
	pw.memberships.review(key)
	// The gate did not count the finished member before, so it may have blocked other members.
	if pw.gangs.Idle(gangKey(key)) || cluster.IsGateReason(pw.gangs.Verdict(gangKey(key)).Reason) {
		pw.retries.soon(key)
	}
}
