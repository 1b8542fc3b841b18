package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TurnBack returns a victim that waits at Permit or is in PreBind to the queue. Such a victim has
// not started anywhere, so it need not be deleted. TurnBack returns false for a victim that is
// bound or being bound.
func (p *Plugin) TurnBack(victim *corev1.Pod) bool {
	const why = "preempted before it was bound"
	if !p.IsUnbound(victim) {
		return false
	}
	if p.sched.releases.rejectAtPermit(victim.UID, why) {
		return true
	}
	if p.sched.releases.cancelBinding(victim.UID, why) {
		return true
	}
	// A victim that is not assumed was returned to the queue already, or has just been bound.
	return !p.sched.records.IsAssumed(string(victim.UID)) && p.IsUnbound(victim)
}

// IsUnbound reports whether the informer has the victim without a node.
func (p *Plugin) IsUnbound(victim *corev1.Pod) bool {
	now, err := p.sched.index.pods.Pods(victim.Namespace).Get(victim.Name)
	return err == nil && now.UID == victim.UID && now.Spec.NodeName == ""
}

// rejectAtPermit rejects a pod that waits at Permit; false for a pod that does not wait there.
func (x *releases) rejectAtPermit(uid types.UID, why string) bool {
	x.placements.rejecting.Lock()
	defer x.placements.rejecting.Unlock()
	if x.records.IsRejected(string(uid)) {
		return true
	}
	w := x.handle.GetWaitingPod(uid)
	if w == nil || !w.Preempt(Name, why) {
		return false
	}
	x.records.Rejects(string(uid))
	return true
}

// cancelBindings returns the members in PreBind to the queue if their gang then has too few
// members. A gang is placed together or not at all.
func (x *releases) cancelBindings(key types.NamespacedName, why string) {
	g, ok := x.index.groups.Group(key)
	if !ok || !g.IsGang() {
		return
	}
	members := x.placements.members(key)
	if g.Tree != nil {
		short := x.placements.partial(g, &members, nil)
		for _, pod := range members.Pending {
			if name, _ := gang.GroupOf(pod); members.Reserved.Has(pod.UID) && short.Has(name.Name) {
				x.cancelBinding(pod.UID, why)
			}
		}
		return
	}
	if x.placements.through(&members) >= g.MinCount {
		return
	}
	for _, uid := range x.gangs.Reserved(gangKey(key)) {
		x.cancelBinding(types.UID(uid), why)
	}
}

// cancelBinding returns a pod in PreBind to the queue; false for a pod that is not in PreBind, or
// that is being bound already.
func (x *releases) cancelBinding(uid types.UID, why string) bool {
	b := x.handle.GetPodInPreBind(uid)
	if b == nil {
		return false
	}
	// Record the cancellation first, because the framework may report it before CancelPod returns.
	x.records.Cancels(string(uid))
	if !b.CancelPod(why) {
		x.records.KeepsBinding(string(uid))
		return false
	}
	return true
}
