package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// retry retries gangs that were gated and that the gate would admit now. The main loop calls it.
// Most changes retry a gang at once. But some causes end by several separate events, and members
// that the gate blocks get no events (see [Gate]). For example, the leader may be gated itself when
// other members are created.
func (gs *gates) retry() {
	moved := gs.moved.Swap(false)
	for key, reason := range gs.gangs.Judged() {
		if !isGateReason(reason) || gs.turns.Holds(key) {
			// The gang has passed the gate and is in the queue. The recorded verdict may be
			// outdated until its turn ends.
			continue
		}
		if _, members, verdict := gs.of(nameOf(key)); verdict == (gang.Verdict{}) && len(members.Pending) > 0 {
			gs.retries.soon(nameOf(key))
		}
	}
	for _, lead := range gs.gangs.Leads() {
		gs.retryLed(&lead)
	}
	if !moved {
		return
	}
	for _, key := range gs.gangs.Unled() {
		if members := gs.placements.members(nameOf(key)); len(members.Pending) > 0 && !gs.waits.Evicting(key) {
			gs.retries.soon(nameOf(key))
		}
	}
}

// retryLed updates a gang whose leader was chosen earlier. Since then, other plugins may have begun
// or ceased to gate members:
//
//   - If the leader gave up because too few members could be scheduled, and enough members can be
//     now, retryLed retries the gang.
//   - If another plugin gates the leader now, retryLed chooses another leader.
//
// Such changes can come without an event for the gang. A plugin's events reach only the pods that
// this plugin gates. The queue stops at the first plugin that gates a pod, so members that
// ReprieveGate gates do not get the events of other plugins.
func (gs *gates) retryLed(lead *engine.Lead) {
	key := nameOf(lead.Gang)
	g, ok := gs.index.groups.Group(key)
	if !ok || gs.waits.Evicting(lead.Gang) || gs.turns.Holds(lead.Gang) {
		return
	}
	members := gs.placements.members(key)
	if lead.Yielded {
		if _, _, verdict := gs.of(key); verdict != (gang.Verdict{}) {
			// The gate blocks the gang. The gang is retried when the gate's cause ends.
			return
		}
		able := slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool {
			return members.Reserved.Has(pod.UID) || !gs.index.entersQueue(pod)
		})
		if len(able) > 0 && len(able) >= gs.placements.lacking(g, &members, able) {
			gs.retries.soon(key)
		}
		return
	}
	at := slices.IndexFunc(members.Pending, func(pod *corev1.Pod) bool { return string(pod.UID) == lead.Leader })
	if at >= 0 && !members.Reserved.Has(members.Pending[at].UID) && !gs.index.entersQueue(members.Pending[at]) {
		gs.retries.nextLeader(key, members.Pending[at].UID)
	}
}

// blockedBy returns the cause that blocks a workload from using its reservations; "" for none. It
// returns "" for a gang with planned members. Most causes begin without an event, so the main loop
// and the evictions call blockedBy at intervals.
func (o *placements) blockedBy(key workload.Key) string {
	if !key.Gang {
		pod, ok := o.index.podOf(key)
		switch {
		case !ok:
			return ""
		case o.isBlockedByGroup(pod):
			return "its group cannot be tried any more"
		}
		return o.index.gatedBy(pod)
	}
	members := o.membersAsReserved(nameOf(key))
	_, verdict := o.lacks(nameOf(key), &members)
	return o.gangBlockedBy(key, &members, verdict)
}

// gangBlockedBy is blockedBy for a gang. members are the gang's members, and lacks is the verdict
// that the method lacks returned for them.
func (o *placements) gangBlockedBy(key workload.Key, members *gang.Members, lacks gang.Verdict) (why string) {
	switch {
	case o.gangs.Planned(key) > 0:
		return ""
	case lacks != (gang.Verdict{}):
		return lacks.Message
	}
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			continue
		}
		if why = o.index.gatedBy(pod); why == "" {
			return ""
		}
	}
	return why
}

// gangGatedBy returns the reason why other plugins gate all pending members of a gang. It returns
// "" if the gang has no pending member, or if any pending member can enter the queue. Any goroutine
// may call it.
func (r *clusterIndex) gangGatedBy(members *gang.Members) string {
	var first keptOutMember
	for _, pod := range members.Pending {
		why := r.gatedBy(pod)
		if why == "" {
			return ""
		}
		first.see(pod.Name, why)
	}
	return first.String()
}

// keptOutMember is the first gated member of a gang, by name, with the reason. Messages name the
// first member so that they stay the same while the set of gated members is the same.
type keptOutMember struct{ name, why string }

func (m *keptOutMember) see(name, why string) {
	if m.name == "" || name < m.name {
		m.name, m.why = name, why
	}
}

// String describes the gated member; "" if there is none.
func (m *keptOutMember) String() string {
	if m.name == "" {
		return ""
	}
	return "member " + m.name + ": " + m.why
}

// isBlockedByGroup reports whether the group or the owner of a pod blocks the pod. It does not
// check queues or other plugins.
func (o *placements) isBlockedByGroup(pod *corev1.Pod) bool {
	if o.index.derived.Hold(pod) != (gang.Verdict{}) || gang.Contradiction(pod) != (gang.Verdict{}) {
		return true
	}
	key, ok := o.index.groupOf(pod)
	if !ok {
		return false
	}
	if g, ok := o.index.groups.Group(key); ok && !g.IsGang() {
		// For a basic group, the verdict does not depend on the members. Listing many members would
		// take long.
		return gang.Gate(key, g, nil) != gang.Verdict{}
	}
	members := o.members(key)
	_, verdict := o.lacks(key, &members)
	return verdict != gang.Verdict{}
}
