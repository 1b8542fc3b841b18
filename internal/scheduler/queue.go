package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// PreEnqueue gates pods that there is no point in trying: members whose PodGroup or gang is not complete,
// members that another one plans for, and preemptors for which room is being made. The queue calls it under
// its own lock, so nothing here may call the queue.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	key, ok := p.hub.groupOf(pod)
	if !ok {
		return p.preEnqueueSingle(pod)
	}
	if v := gang.Contradiction(pod); v != (gang.Verdict{}) {
		return gated(v.Message)
	}
	if _, planned := p.hub.registry.PlannedNode(key, pod.UID); planned {
		if p.hub.registry.Next(key) != pod.UID {
			return gated(string(gang.HoldForOrder))
		}
		return nil
	}
	g, members, verdict := p.hub.gate(key)
	if verdict != (gang.Verdict{}) {
		p.hub.registry.SetVerdict(key, verdict)
		// Others need not wait for one that cannot come.
		p.hub.waits.LeaveTurns(gangKey(key))
		return gated(verdict.Message)
	}
	if !g.IsGang() {
		return p.preEnqueueSingle(pod)
	}
	if !p.hub.entersQueue(pod) {
		// It is held back whatever is said here; leadership is for those who can go.
		return nil
	}
	if p.hub.waits.Evicting(gangKey(key)) {
		return gated(holdForEviction)
	}
	if p.hub.waitsForTurn(pod) {
		return gated(holdForTurn)
	}
	switch a := p.hub.registry.Admit(key, pod.UID, p.hub.canLead(&members)); a {
	case gang.AdmitPlanned, gang.AdmitLeader:
		return nil
	default:
		return gated(string(a))
	}
}

func (p *Plugin) preEnqueueSingle(pod *corev1.Pod) *fwk.Status {
	if p.hub.isEvictingFor(pod) {
		return gated(holdForEviction)
	}
	if p.hub.entersQueue(pod) && p.hub.waitsForTurn(pod) {
		return gated(holdForTurn)
	}
	return nil
}

const (
	// holdForTurn is why work of a queue is not tried yet.
	holdForTurn = "other work of the queues comes first"
	// holdForEviction is why a preemptor is not tried while its victims are being told to go.
	holdForEviction = "room is being made for it"
)

// gate looks at a group and its members as they are now.
func (h *Hub) gate(key types.NamespacedName) (*gang.Group, gang.Members, gang.Verdict) {
	g, ok := h.groups.Group(key)
	if !ok {
		g = nil
	}
	members := h.members(key)
	verdict := gang.Gate(key, g, &members)
	if verdict == (gang.Verdict{}) && h.board.Used() && g != nil {
		check := func() gang.Verdict { return h.board.Check(h.queueOfGroup(g)) }
		if check() != (gang.Verdict{}) {
			verdict = h.ask(gangKey(key), check)
		}
	}
	return g, members, verdict
}

// canLead tells which members are able to plan for the others.
func (h *Hub) canLead(members *gang.Members) func(types.UID) bool {
	return func(uid types.UID) bool {
		for _, pod := range members.Pending {
			if pod.UID == uid {
				return h.entersQueue(pod)
			}
		}
		return false
	}
}

// gated keeps a pod out of the active queue until an event or an Activate.
func gated(why string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
}

// EventsToRegister names what may make a gang fit that did not: the events by which the in-tree filters
// retry pods, since any of them may have been in the way of any member. A pod without a gang is turned away here for
// want of room only.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	on := func(resource fwk.EventResource, action fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
		return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: resource, ActionType: action}, QueueingHintFn: hint}
	}
	return []fwk.ClusterEventWithHint{
		on(fwk.Node, fwk.Add|fwk.UpdateNodeAllocatable|fwk.UpdateNodeLabel|fwk.UpdateNodeTaint|fwk.UpdateNodeDeclaredFeature, p.hintAny),
		on(fwk.Pod, fwk.Delete, p.hintPodDeleted),
		on(fwk.Pod, fwk.Add|fwk.UpdatePodLabel, p.hintPodSeen),
		on(fwk.Pod, fwk.UpdatePodScaleDown|fwk.UpdatePodToleration|fwk.UpdatePodSchedulingGatesEliminated, p.hintPodUpdated),
		on(fwk.PersistentVolumeClaim, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.PersistentVolume, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.StorageClass, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.CSINode, fwk.Add|fwk.Update, p.hintGang),
		on(fwk.VolumeAttachment, fwk.Delete, p.hintGang),
	}, nil
}

// hintAny retries what can make use of it: a pod without a gang, unless room is being made for it, and of
// a gang the member that plans for all.
func (p *Plugin) hintAny(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.hint(p.speaks(pod)), nil
}

// hintGang retries gangs only.
func (p *Plugin) hintGang(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	return p.hint(p.hub.gangOf(pod) != nil && p.speaks(pod)), nil
}

func (*Plugin) hint(worthIt bool) fwk.QueueingHint {
	if worthIt {
		return fwk.Queue
	}
	return fwk.QueueSkip
}

// speaks reports whether it is this pod that is tried again on behalf of itself or its gang.
func (p *Plugin) speaks(pod *corev1.Pod) bool {
	if p.hub.board.Used() && p.hub.waits.Holds(p.hub.keyOf(pod)) {
		return false
	}
	key, ok := p.hub.groupOf(pod)
	if !ok || p.hub.gangOf(pod) == nil {
		return !p.hub.isEvictingFor(pod)
	}
	leader := p.hub.registry.Leader(key)
	return leader == "" || leader == pod.UID
}

// hintPodDeleted leaves out the departures that are awaited, as long as others have to follow. Of pods that are turned
// back in memory, this is all that is heard: no informer tells of them.
func (p *Plugin) hintPodDeleted(_ klog.Logger, pod *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	if !p.speaks(pod) {
		return fwk.QueueSkip, nil
	}
	if gone, ok := oldObj.(*corev1.Pod); ok {
		if own, isMember := p.hub.groupOf(gone); isMember && p.hub.isStuckWith(pod, own) {
			// A member that was turned away, which makes no difference to the plan.
			return fwk.QueueSkip, nil
		}
		if awaited, worthIt := p.hub.waits.GoneFor(p.hub.keyOf(pod), string(gone.UID)); awaited {
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
	return p.hint(p.hub.gangOf(pod) != nil && p.hub.registry.Minding(key) && p.speaks(pod)), nil
}

// hintPodUpdated has the gang planned again when one of its members has changed.
func (p *Plugin) hintPodUpdated(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	if speaks := p.speaks(pod); speaks {
		return fwk.Queue, nil
	}
	if changed, ok := newObj.(*corev1.Pod); ok && changed.UID == pod.UID {
		if key, ok := p.hub.groupOf(pod); ok {
			p.hub.wakeSoon(key)
		}
	}
	return fwk.QueueSkip, nil
}

// isStuckWith reports whether a pod is a member of that group, whose plan has been refused twice.
func (h *Hub) isStuckWith(pod *corev1.Pod, group types.NamespacedName) bool {
	key, ok := h.groupOf(pod)
	return ok && key == group && h.registry.Stuck(key)
}
