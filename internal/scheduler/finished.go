package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// informerOfFinished is an informer of the members that have finished, which the scheduler's own informer leaves out: those
// that have succeeded count towards minCount. It runs from the call of start until ctx is done.
func (in *Inputs) informerOfFinished(handle framework.Framework) (pods cache.SharedIndexInformer, start func(ctx context.Context)) {
	derived := in.emptyRoster().derived
	factory := informers.NewSharedInformerFactoryWithOptions(handle.ClientSet(), 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			// Nothing selects by spec.schedulingGroup, or by what pods belong to.
			if !in.SchedulingGroups && in.Derived == nil {
				o.LabelSelector = v1alpha1.LabelPodGroup
			}
			o.FieldSelector = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
		}),
		informers.WithTransform(func(obj any) (any, error) { return onlyOutcome(obj, derived), nil }),
	)
	return factory.Core().V1().Pods().Informer(), func(ctx context.Context) { factory.Start(ctx.Done()) }
}

// watchFinished follows the members that have finished. The result reports whether the hub has heard of all that had at the start.
func (h *Hub) watchFinished() (cache.InformerSynced, error) {
	handler, err := h.finished.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: h.memberFinished,
		// Of a pod that is made anew under its name and finishes, all while the watch is interrupted, informers tell as of a change.
		UpdateFunc: func(before, now any) {
			was, ok := before.(*corev1.Pod)
			if is, known := now.(*corev1.Pod); ok && known && was.UID != is.UID {
				h.podDeleted(was)
				h.memberFinished(is)
			}
		},
		DeleteFunc: h.podDeleted,
	})
	if err != nil {
		return nil, err
	}
	return handler.HasSynced, nil
}

// onlyOutcome keeps of a finished pod what is asked about it: of one without a group, nothing but its name.
func onlyOutcome(obj any, derived gang.Derived) any {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj
	}
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}
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
	out.CreationTimestamp, out.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
	out.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, SchedulerName: pod.Spec.SchedulerName, SchedulingGroup: pod.Spec.SchedulingGroup,
	}
	out.Status.Phase = pod.Status.Phase
	return out
}

// memberFinished looks again at a gang that may have been short of members.
func (h *Hub) memberFinished(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	key, ok := h.groupOf(pod)
	if !ok {
		return
	}
	h.outcomes.known(key, pod.UID)
	h.runs.Touch(key)
	h.regroup(key)
	h.tellGroupState(key)
	h.review(key)
	// Its members may have come before this was known, and have been held back for want of it.
	if h.registry.Idle(key) || isGateReason(h.registry.Verdict(key).Reason) {
		h.wakeSoon(key)
	}
}
