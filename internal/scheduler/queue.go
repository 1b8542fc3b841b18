package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/filters"
)

// EventsToRegister returns the events that may let a rejected gang fit. A member may have been
// rejected by any of the in-tree filters, so these are the events of all in-tree filters. This
// plugin rejects a single pod only if it lacks room, or if it claims devices or local volumes; see
// goByDecision.
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
		on(fwk.CSIDriver, fwk.Update, p.hintSensitive),
		on(fwk.CSIStorageCapacity, fwk.Add|fwk.Update, p.hintSensitive),
		on(fwk.ResourceClaim, fwk.Add|fwk.Update|fwk.Delete, p.hintClaim),
		on(fwk.ResourceSlice, fwk.Add|fwk.Update, p.hintSensitive),
		// A single pod may have been rejected for a resource that the new DeviceClass maps.
		on(fwk.DeviceClass, fwk.Add|fwk.Update, p.hintAny),
	}, nil
}

// hintAny retries a workload after a change that any workload may use. It retries single pods
// without evictions under way and, of each gang, the member that plans.
func (p *Plugin) hintAny(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.hint(p.sched.gates.represents(pod)), nil
}

// hintGang retries gangs, and single pods that claim devices or local volumes. A decision may have
// rejected such pods because of a filter.
func (p *Plugin) hintGang(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.hint((p.sched.index.GangOf(pod) != nil || filters.IsClaimant(p.handle, pod)) && p.sched.gates.represents(pod)), nil
}

// hintSensitive retries gangs whose members depend on more than room, such as other pods, volumes
// or devices. It also retries single pods that claim devices or local volumes.
func (p *Plugin) hintSensitive(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	sensitive := filters.IsClaimant(p.handle, pod)
	if p.sched.index.GangOf(pod) != nil {
		key, _ := p.sched.index.GroupOf(pod)
		sensitive = p.sched.gangs.PodSensitive(gangKey(key))
	}
	return p.hint(sensitive && p.sched.gates.represents(pod)), nil
}

// hintClaim is like hintSensitive, for a change of a ResourceClaim. It ignores a change unless the
// change releases devices, or concerns a claim of the pod or its gang.
func (p *Plugin) hintClaim(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, _ := oldObj.(*resourceapi.ResourceClaim)
	after, _ := newObj.(*resourceapi.ResourceClaim)
	if !isGivenBack(before, after) && !p.needsClaim(pod, after) {
		return fwk.QueueSkip, nil
	}
	return p.hintSensitive(logger, pod, oldObj, newObj)
}

// isGivenBack reports whether a change of a claim releases devices. The claim has lost its devices,
// or it was deleted while it had devices. The deletion of a claim for an extended resource also
// counts, because such a claim no longer blocks its pod.
func isGivenBack(before, after *resourceapi.ResourceClaim) bool {
	if before == nil {
		return false
	}
	had := before.Status.Allocation != nil
	if after == nil {
		return had || before.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
	}
	return had && after.Status.Allocation == nil
}

// needsClaim reports whether a claim belongs to a pod, or to another pending member of the pod's
// gang.
func (p *Plugin) needsClaim(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	if claim == nil || claim.Namespace != pod.Namespace {
		return false
	}
	key, ok := p.sched.index.GroupOf(pod)
	return filters.Claims(pod, claim) || ok && slices.ContainsFunc(p.sched.index.Lister.Members(key).Pending, func(member *corev1.Pod) bool { return filters.Claims(member, claim) })
}

func (*Plugin) hint(worthIt bool) fwk.QueueingHint {
	if worthIt {
		return fwk.Queue
	}
	return fwk.QueueSkip
}

// hintPodDeleted skips workloads that no deletion can help, because they exceed the nodes. It skips
// the deletion of a pending victim as long as other victims must still terminate. For victims that
// return to the queue instead of being deleted, this is the only event, because no informer reports
// their return.
func (p *Plugin) hintPodDeleted(_ klog.Logger, pod *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	if !p.sched.gates.represents(pod) || p.sched.waits.WaitsFor(p.sched.index.KeyOf(pod), engine.Nodes) {
		return fwk.QueueSkip, nil
	}
	if gone, ok := oldObj.(*corev1.Pod); ok {
		if own, isMember := p.sched.index.GroupOf(gone); isMember && p.sched.placements.IsStuckWith(pod, own) {
			// The pod is a member that was rejected and has returned to the queue. That does not
			// change the plan.
			return fwk.QueueSkip, nil
		}
		key := p.sched.index.KeyOf(pod)
		if awaited, worthIt := p.sched.waits.GoneFor(key, string(gone.UID)); awaited {
			if worthIt {
				// The informer's handler may run later than this hint. The framework's queue would
				// let a workload with many attempts back off for seconds, so also schedule a retry.
				p.sched.waits.Gather(key, p.sched.clock.Now())
			}
			return p.hint(worthIt), nil
		}
	}
	return fwk.Queue, nil
}

// hintPodSeen retries workloads that depend on other pods by more than their room.
func (p *Plugin) hintPodSeen(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	if before, ok := oldObj.(*corev1.Pod); ok && before.UID == pod.UID && reconciled(before, pod) {
		return fwk.Queue, nil
	}
	return p.hintSensitive(logger, pod, oldObj, newObj)
}

// hintPodUpdated handles an update of a pod that was rejected. The pod's gang is then planned
// again.
func (p *Plugin) hintPodUpdated(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	return p.hint(p.sched.gates.updated(pod, newObj)), nil
}
