package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TurnBack returns a victim that waits at Permit or in PreBind to the queue. The victim has not
// started anywhere, so nothing needs to be deleted. It reports false for a victim that is bound or
// being bound.
func (p *Plugin) TurnBack(victim *corev1.Pod) bool {
	const why = "preempted before it was bound"
	if !p.IsUnbound(victim) {
		return false
	}
	if p.sched.rejectAtPermit(victim.UID, why) {
		return true
	}
	if p.sched.cancelBinding(victim.UID, why) {
		return true
	}
	// A victim that is no longer assumed was returned to the queue already, or was bound a moment
	// ago.
	return !p.sched.records.IsAssumed(string(victim.UID)) && p.IsUnbound(victim)
}

// IsUnbound reports whether the informer shows a victim without a node.
func (p *Plugin) IsUnbound(victim *corev1.Pod) bool {
	now, err := p.sched.pods.Pods(victim.Namespace).Get(victim.Name)
	return err == nil && now.UID == victim.UID && now.Spec.NodeName == ""
}

// rejectAtPermit rejects a pod that waits at Permit. It reports false for a pod that does not
// wait.
func (h *Scheduler) rejectAtPermit(uid types.UID, why string) bool {
	h.rejecting.Lock()
	defer h.rejecting.Unlock()
	if h.records.IsRejected(string(uid)) {
		return true
	}
	w := h.handle.GetWaitingPod(uid)
	if w == nil || !w.Preempt(Name, why) {
		return false
	}
	h.records.Rejects(string(uid))
	return true
}

// cancelBindings returns the members in PreBind to the queue if their gang has too few members,
// because a gang is placed together or not at all.
func (h *Scheduler) cancelBindings(key types.NamespacedName, why string) {
	g, ok := h.groups.Group(key)
	if !ok || !g.IsGang() {
		return
	}
	members := h.members(key)
	if g.Tree != nil {
		short := h.partial(g, &members, nil)
		for _, pod := range members.Pending {
			if name, _ := gang.GroupOf(pod); members.Reserved.Has(pod.UID) && short.Has(name.Name) {
				h.cancelBinding(pod.UID, why)
			}
		}
		return
	}
	if h.through(&members) >= g.MinCount {
		return
	}
	for _, uid := range h.gangs.Reserved(gangKey(key)) {
		h.cancelBinding(types.UID(uid), why)
	}
}

// cancelBinding returns a pod in PreBind to the queue. It reports false for a pod that is not in
// PreBind, or is being bound already.
func (h *Scheduler) cancelBinding(uid types.UID, why string) bool {
	b := h.handle.GetPodInPreBind(uid)
	if b == nil {
		return false
	}
	// The record comes first, because the framework may report the cancellation at once.
	h.records.Cancels(string(uid))
	if !b.CancelPod(why) {
		h.records.KeepsBinding(string(uid))
		return false
	}
	return true
}
