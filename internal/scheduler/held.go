package scheduler

import (
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// wakeHeld tries gangs again that the gate holds back for what is over. Their members hear of no events (see [Gate]), and what changes
// a gang wakes it at once; this is for changes that come by several ways at a time, of which the last one seen is not the one that
// matters: a member that leads, and is held back itself when others come, or gets its node from somewhere else.
func (h *Hub) wakeHeld() {
	for key, reason := range h.registry.Judged() {
		if !isGateReason(reason) || h.waits.Holds(gangKey(key)) {
			// What waits for its turn is through the gate, and says otherwise only until it has had it.
			continue
		}
		if _, members, verdict := h.gate(key); verdict == (gang.Verdict{}) && len(members.Pending) > 0 {
			h.wakeSoon(key)
		}
	}
	if !h.moved.Swap(false) {
		return
	}
	for _, key := range h.registry.Unled() {
		if members := h.members(key); len(members.Pending) > 0 && !h.waits.Evicting(gangKey(key)) {
			h.wakeSoon(key)
		}
	}
}
