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
)

// watchFinished makes an informer of the members that have finished, which the scheduler's own informer leaves out: those
// that have succeeded count towards minCount. It runs from the call of start until ctx is done.
func (h *Hub) watchFinished(ctx context.Context, in *Inputs, handle framework.Framework) (told cache.InformerSynced, start func(), err error) {
	factory := informers.NewSharedInformerFactoryWithOptions(handle.ClientSet(), 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			// Nothing selects by spec.schedulingGroup, or by what pods belong to.
			if !in.SchedulingGroups && in.Derived == nil {
				o.LabelSelector = v1alpha1.LabelPodGroup
			}
			o.FieldSelector = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
		}),
		informers.WithTransform(h.onlyOutcome),
	)
	pods := factory.Core().V1().Pods().Informer()
	if err := h.addIndexes(pods); err != nil {
		return nil, nil, err
	}
	handler, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
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
		return nil, nil, err
	}
	h.finished = pods
	return handler.HasSynced, func() { factory.Start(ctx.Done()) }, nil
}

// onlyOutcome keeps of a finished pod what is asked about it: of one without a group, nothing but its name.
func (h *Hub) onlyOutcome(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}
	_, named := gang.GroupOf(pod)
	switch derived := len(h.derived.AnchorsOf(pod)) > 0; {
	case derived:
		out.Labels, out.OwnerReferences = pod.Labels, pod.OwnerReferences
	case !named:
		return out, nil
	}
	if name, ok := pod.Labels[v1alpha1.LabelPodGroup]; ok {
		out.Labels = map[string]string{v1alpha1.LabelPodGroup: name}
	}
	out.CreationTimestamp, out.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
	out.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, SchedulerName: pod.Spec.SchedulerName, SchedulingGroup: pod.Spec.SchedulingGroup,
	}
	out.Status.Phase = pod.Status.Phase
	return out, nil
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
	h.runs.Touch(key)
	h.regroup(key)
	h.tellGroupState(key)
	if h.registry.Idle(key) {
		h.wakeSoon(key)
	}
}
