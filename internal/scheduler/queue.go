package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// EventsToRegister names what may make a gang fit that did not: the events by which the in-tree filters
// retry pods, since any of them may have been in the way of any member. A pod without a gang is turned away here for
// want of room only.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	on := func(resource fwk.EventResource, action fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
		return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: resource, ActionType: action}, QueueingHintFn: hint}
	}
	return []fwk.ClusterEventWithHint{
		on(fwk.Node, fwk.Delete, p.hintGang),
		on(fwk.Node, fwk.Add|fwk.UpdateNodeAllocatable|fwk.UpdateNodeLabel|fwk.UpdateNodeTaint|fwk.UpdateNodeDeclaredFeature, p.hintAny),
		on(fwk.Pod, fwk.Delete, p.hintPodDeleted),
		on(fwk.Pod, fwk.Add|fwk.UpdatePodLabel, p.hintPodSeen),
		on(fwk.Pod, fwk.UpdatePodScaleDown|fwk.UpdatePodToleration|fwk.UpdatePodSchedulingGatesEliminated, p.hintPodUpdated),
		on(fwk.PersistentVolumeClaim, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.PersistentVolume, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.StorageClass, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.CSINode, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.VolumeAttachment, fwk.Delete, p.hintGang),
		on(fwk.CSIDriver, fwk.Update, p.hintGang),
		on(fwk.CSIStorageCapacity, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.ResourceClaim, fwk.Add|fwk.Update|fwk.Delete, p.hintClaim),
		on(fwk.ResourceSlice, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.DeviceClass, fwk.Add|fwk.Update, p.hintGang),
	}, nil
}

// hintAny retries what can make use of it: a pod without a gang, unless room is being made for it, and of
// a gang the member that plans for all.
func (p *Plugin) hintAny(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.hint(p.hub.speaks(pod)), nil
}

// hintGang retries gangs only.
func (p *Plugin) hintGang(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.hint(p.hub.gangOf(pod) != nil && p.hub.speaks(pod)), nil
}

// hintClaim retries gangs when a claim for devices comes, goes, or is changed, but for one that is allocated: that leaves fewer devices.
func (p *Plugin) hintClaim(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, ok1 := oldObj.(*resourceapi.ResourceClaim)
	after, ok2 := newObj.(*resourceapi.ResourceClaim)
	if ok1 && ok2 && before.Status.Allocation == nil && after.Status.Allocation != nil {
		return fwk.QueueSkip, nil
	}
	return p.hintGang(logger, pod, oldObj, newObj)
}

func (*Plugin) hint(worthIt bool) fwk.QueueingHint {
	if worthIt {
		return fwk.Queue
	}
	return fwk.QueueSkip
}

// hintPodDeleted leaves out the departures that are awaited, as long as others have to follow. Of pods that are turned
// back in memory, this is all that is heard: no informer tells of them.
func (p *Plugin) hintPodDeleted(_ klog.Logger, pod *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	if !p.hub.speaks(pod) {
		return fwk.QueueSkip, nil
	}
	if gone, ok := oldObj.(*corev1.Pod); ok {
		if own, isMember := p.hub.groupOf(gone); isMember && p.hub.isStuckWith(pod, own) {
			// A member that was turned away, which makes no difference to the plan.
			return fwk.QueueSkip, nil
		}
		key := p.hub.keyOf(pod)
		if awaited, worthIt := p.hub.waits.GoneFor(key, string(gone.UID)); awaited {
			if worthIt {
				// The hub wakes what it hears of first. The queue alone would have a workload that was tried often back off for seconds.
				p.hub.waits.Gather(key, p.hub.clock.Now())
			}
			return p.hint(worthIt), nil
		}
	}
	return fwk.Queue, nil
}

// hintPodSeen retries workloads to which other pods matter by more than the room they take.
func (p *Plugin) hintPodSeen(_ klog.Logger, pod *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	if before, ok := oldObj.(*corev1.Pod); ok && before.UID == pod.UID && reconciled(before, pod) {
		return fwk.Queue, nil
	}
	key, _ := p.hub.groupOf(pod)
	return p.hint(p.hub.gangOf(pod) != nil && p.hub.registry.PodSensitive(key) && p.hub.speaks(pod)), nil
}

// hintPodUpdated has the gang planned again when one of its members has changed.
func (p *Plugin) hintPodUpdated(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	return p.hint(p.hub.updated(pod, newObj)), nil
}

// isStuckWith reports whether a pod is a member of that group, whose plan has been refused twice.
func (o *occupancy) isStuckWith(pod *corev1.Pod, group types.NamespacedName) bool {
	key, ok := o.groupOf(pod)
	return ok && key == group && o.registry.Stuck(key)
}
