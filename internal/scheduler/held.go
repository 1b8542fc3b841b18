package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// wakeHeld tries gangs again that the gate holds back for what is over. Their members hear of no events (see [Gate]), and what changes
// a gang wakes it at once; this is for changes that come by several ways at a time, of which the last one seen is not the one that
// matters: a member that leads, and is held back itself when others come, or gets its node from somewhere else.
func (h *Hub) wakeHeld() {
	moved := h.moved.Swap(false)
	for key, reason := range h.registry.Judged() {
		if (moved || isGateReason(reason)) && h.hasLeft(gangKey(key)) {
			// It was judged while its last member went.
			h.dropGang(key)
			continue
		}
		if !isGateReason(reason) || h.waits.Holds(gangKey(key)) {
			// What waits for its turn is through the gate, and says otherwise only until it has had it.
			continue
		}
		if _, members, verdict := h.gate(key); verdict == (gang.Verdict{}) && len(members.Pending) > 0 {
			h.wakeSoon(key)
		}
	}
	if !moved {
		return
	}
	for _, key := range h.registry.Unled() {
		if members := h.members(key); len(members.Pending) > 0 && !h.waits.Evicting(gangKey(key)) {
			h.wakeSoon(key)
		}
	}
}

// heldBack says why nothing of a workload can be tried, and nothing that it has been promised be used; "" where something can. For most
// reasons no event comes, so the main loop, which ends promises, and the evictions ask again and again. A gang that is on its way to its nodes goes on.
func (h *Hub) heldBack(key workload.Key) string {
	if !key.Gang {
		pod, ok := h.podOf(key)
		switch {
		case !ok:
			return ""
		case h.isHeldBack(pod):
			return "its group cannot be tried any more"
		}
		return h.keptOut(pod)
	}
	members := h.membersStill(nameOf(key))
	_, verdict := h.lacks(nameOf(key), &members)
	return h.gangHeldBack(key, &members, verdict)
}

// gangHeldBack is heldBack for a gang of which it is known who its members are, and what it lacks.
func (h *Hub) gangHeldBack(key workload.Key, members *gang.Members, lacks gang.Verdict) (why string) {
	switch {
	case h.registry.Planned(nameOf(key)) > 0:
		return ""
	case lacks != (gang.Verdict{}):
		return lacks.Message
	}
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			continue
		}
		if why = h.keptOut(pod); why == "" {
			return ""
		}
	}
	return why
}

// KeptOut says why none of the members of a gang that wait can come forward, as other plugins hold back all of them; "" where one can, or
// none waits. Any goroutine may call it.
func (h *Hub) KeptOut(members *gang.Members) string {
	var first keptOutMember
	for _, pod := range members.Pending {
		why := h.keptOut(pod)
		if why == "" {
			return ""
		}
		first.see(pod.Name, why)
	}
	return first.String()
}

// keptOutMember is the first by name of the members that are kept out: it is said of the same one each time.
type keptOutMember struct{ name, why string }

func (m *keptOutMember) see(name, why string) {
	if m.name == "" || name < m.name {
		m.name, m.why = name, why
	}
}

// String is empty where none is kept out.
func (m *keptOutMember) String() string {
	if m.name == "" {
		return ""
	}
	return "member " + m.name + ": " + m.why
}

// isHeldBack reports whether a pod cannot be tried because of what it belongs to, or what that lacks.
func (h *Hub) isHeldBack(pod *corev1.Pod) bool {
	if h.derived.Hold(pod) != (gang.Verdict{}) || gang.Contradiction(pod) != (gang.Verdict{}) {
		return true
	}
	key, ok := h.groupOf(pod)
	if !ok {
		return false
	}
	if g, ok := h.groups.Group(key); ok && !g.IsGang() {
		// Members make no difference, and there may be many.
		return gang.Gate(key, g, nil) != gang.Verdict{}
	}
	members := h.members(key)
	_, verdict := h.lacks(key, &members)
	return verdict != gang.Verdict{}
}
