package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// retryGated retries gangs that are still gated although the cause has ended. Most changes of a
// gang retry it at once, but its members get no events (see [Gate]). Some changes arrive in several
// parts, and any part may end the cause. For example, a leader may be gated itself when other
// members arrive, or may get its node from another scheduler.
func (h *Scheduler) retryGated() {
	moved := h.moved.Swap(false)
	for key, reason := range h.gangs.Judged() {
		if !isGateReason(reason) || h.turns.Holds(key) {
			// A gang in the queue has passed the gate. Its verdict may be outdated until its turn
			// is over.
			continue
		}
		if _, members, verdict := h.gate(nameOf(key)); verdict == (gang.Verdict{}) && len(members.Pending) > 0 {
			h.retrySoon(nameOf(key))
		}
	}
	for _, lead := range h.gangs.Leads() {
		h.retryLed(&lead)
	}
	if !moved {
		return
	}
	for _, key := range h.gangs.Unled() {
		if members := h.members(nameOf(key)); len(members.Pending) > 0 && !h.waits.Evicting(key) {
			h.retrySoon(nameOf(key))
		}
	}
}

// retryLed retries a gang whose leader waits, if other plugins gate other members than they did
// when the leader was chosen. Those plugins have their own events. A member that ReprieveGate gates
// gets none of these events: the queue stops at the first plugin that gates a pod.
func (h *Scheduler) retryLed(lead *engine.Lead) {
	key := nameOf(lead.Gang)
	g, ok := h.groups.Group(key)
	if !ok || h.waits.Evicting(lead.Gang) || h.turns.Holds(lead.Gang) {
		return
	}
	members := h.members(key)
	if lead.Yielded {
		if _, _, verdict := h.gate(key); verdict != (gang.Verdict{}) {
			// The gang is retried once that cause ends.
			return
		}
		able := slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool {
			return members.Reserved.Has(pod.UID) || !h.entersQueue(pod)
		})
		if len(able) > 0 && len(able) >= h.lacking(g, &members, able) {
			h.retrySoon(key)
		}
		return
	}
	at := slices.IndexFunc(members.Pending, func(pod *corev1.Pod) bool { return string(pod.UID) == lead.Leader })
	if at >= 0 && !members.Reserved.Has(members.Pending[at].UID) && !h.entersQueue(members.Pending[at]) {
		h.nextLeader(key, members.Pending[at].UID)
	}
}

// blockedBy returns the cause that blocks a workload, so that it cannot use its reservations; "" if
// it is not blocked. Most causes begin without an event, so the main loop and the evictions ask at
// intervals. A gang with planned members is not blocked.
func (h *Scheduler) blockedBy(key workload.Key) string {
	if !key.Gang {
		pod, ok := h.podOf(key)
		switch {
		case !ok:
			return ""
		case h.isBlockedByGroup(pod):
			return "its group cannot be tried any more"
		}
		return h.gatedBy(pod)
	}
	members := h.membersAsReserved(nameOf(key))
	_, verdict := h.lacks(nameOf(key), &members)
	return h.gangBlockedBy(key, &members, verdict)
}

// gangBlockedBy is like blockedBy, for a gang. The caller passes the members, and the verdict that
// lacks returned for them.
func (h *Scheduler) gangBlockedBy(key workload.Key, members *gang.Members, lacks gang.Verdict) (why string) {
	switch {
	case h.gangs.Planned(key) > 0:
		return ""
	case lacks != (gang.Verdict{}):
		return lacks.Message
	}
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			continue
		}
		if why = h.gatedBy(pod); why == "" {
			return ""
		}
	}
	return why
}

// GangGatedBy returns the reason why other plugins gate all waiting members of a gang. It returns
// "" if any member can enter the queue, or if none waits. Any goroutine may call it.
func (h *Scheduler) GangGatedBy(members *gang.Members) string {
	var first keptOutMember
	for _, pod := range members.Pending {
		why := h.gatedBy(pod)
		if why == "" {
			return ""
		}
		first.see(pod.Name, why)
	}
	return first.String()
}

// keptOutMember is a blocked member with the cause. Messages name the first one by name, so that
// they do not change from time to time.
type keptOutMember struct{ name, why string }

func (m *keptOutMember) see(name, why string) {
	if m.name == "" || name < m.name {
		m.name, m.why = name, why
	}
}

// String returns "" if no member is blocked.
func (m *keptOutMember) String() string {
	if m.name == "" {
		return ""
	}
	return "member " + m.name + ": " + m.why
}

// isBlockedByGroup reports whether a pod is blocked because of its group or its object. It does not
// check queues and other plugins.
func (h *Scheduler) isBlockedByGroup(pod *corev1.Pod) bool {
	if h.derived.Hold(pod) != (gang.Verdict{}) || gang.Contradiction(pod) != (gang.Verdict{}) {
		return true
	}
	key, ok := h.groupOf(pod)
	if !ok {
		return false
	}
	if g, ok := h.groups.Group(key); ok && !g.IsGang() {
		// The verdict does not depend on the members, and there may be many.
		return gang.Gate(key, g, nil) != gang.Verdict{}
	}
	members := h.members(key)
	_, verdict := h.lacks(key, &members)
	return verdict != gang.Verdict{}
}
