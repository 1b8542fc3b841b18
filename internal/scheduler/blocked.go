package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// retry retries gangs that were gated and that the gate would admit now. The main loop calls it.
// The handlers of most changes retry a gang at once. But some causes end only after several
// separate events, and members that the gate blocks get no events (see [Gate]). For example, the
// leader may be gated when other members are created.
func (gs *gates) retry() {
	moved := gs.moved.Swap(false)
	for key, reason := range gs.gangs.Judged() {
		if !cluster.IsGateReason(reason) || gs.turns.Holds(key) {
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
		if members := gs.placements.Members(nameOf(key)); len(members.Pending) > 0 && !gs.waits.Evicting(key) {
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
	g, ok := gs.index.Groups.Group(key)
	if !ok || gs.waits.Evicting(lead.Gang) || gs.turns.Holds(lead.Gang) {
		return
	}
	members := gs.placements.Members(key)
	if lead.Yielded {
		if _, _, verdict := gs.of(key); verdict != (gang.Verdict{}) {
			// The gate blocks the gang. The gang is retried when the gate's cause ends.
			return
		}
		able := slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool {
			return members.Reserved.Has(pod.UID) || !gs.index.EntersQueue(pod)
		})
		if len(able) > 0 && len(able) >= gs.placements.Lacking(g, &members, able) {
			gs.retries.soon(key)
		}
		return
	}
	at := slices.IndexFunc(members.Pending, func(pod *corev1.Pod) bool { return string(pod.UID) == lead.Leader })
	if at >= 0 && !members.Reserved.Has(members.Pending[at].UID) && !gs.index.EntersQueue(members.Pending[at]) {
		gs.retries.nextLeader(key, members.Pending[at].UID)
	}
}
