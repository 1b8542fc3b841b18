package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Members returns the members of a group as planning counts them. Members that will terminate are
// in Terminating, so no member is placed beside them. The assumed pods are read before the
// informer. So a member that is bound between the two reads is counted in any case.
func (o *Placements) Members(key types.NamespacedName) gang.Members {
	reserved := sets.New(typed(o.gangs.Reserved(gang.KeyOf(key)))...)
	m := o.index.Lister.Members(key)
	m.Reserved = reserved
	m.Assigned, m.Terminating = o.leaving.Part(m.Assigned, m.Terminating)
	return m
}

// typed converts UIDs of the engine to the type of the API.
func typed(pods []engine.UID) []types.UID {
	out := make([]types.UID, len(pods))
	for i, uid := range pods {
		out[i] = types.UID(uid)
	}
	return out
}

// Through returns the number of members that have passed their cycles: they have a node, are
// assumed on one, or have succeeded. A member that is being deleted stays assumed until the
// framework forgets it. It does not count, because later members must replace it.
func (o *Placements) Through(members *gang.Members) int {
	return members.Placed() + len(o.Assumed(members))
}

// AtMost returns an upper bound of the number of members that will have passed their cycles. It
// counts placed and planned members. It also counts assumed members that a preemptor may still
// return to the queue to use their room.
func (o *Placements) AtMost(key types.NamespacedName, members *gang.Members) int {
	count := members.Placed() + o.gangs.Planned(gang.KeyOf(key))
	o.Rejecting.Lock()
	defer o.Rejecting.Unlock()
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) && !o.records.IsRejected(string(pod.UID)) {
			count++
		}
	}
	return count
}

// Running returns the number of running members of a group, without terminating members.
func (o *Placements) Running(key types.NamespacedName) int {
	running := 0
	for _, pod := range o.Members(key).Assigned {
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	return running
}

// AwaitsNeeded reports whether some members of a gang are placed, but fewer than it needs, and a
// pending member fills a part that lacks members. A needed part may be lost and have no
// replacement. Surplus of the other parts then does not make the gang whole, and needs a turn. A
// PodGroup past minGroupCount that lost members is such a part too.
func (o *Placements) AwaitsNeeded(key workload.Key) bool {
	g, ok := o.index.Groups.Group(gang.NameOf(key))
	if !ok {
		return false
	}
	members := o.Members(g.Key)
	if o.Through(&members) == 0 {
		return false
	}
	if o.Missing(g, &members) > o.missingAtBest(g, &members) {
		return true
	}
	extra := o.MissingExtra(g, &members)
	return len(extra) > 0 && slices.ContainsFunc(members.Unplaced(), func(pod *corev1.Pod) bool { return extra[g.Tree.PartOf(pod)] > 0 })
}

// IsStuckWith reports whether a pod is a member of a group whose plan has been rejected twice.
func (o *Placements) IsStuckWith(pod *corev1.Pod, group types.NamespacedName) bool {
	key, ok := o.index.GroupOf(pod)
	return ok && key == group && o.gangs.Stuck(gang.KeyOf(key))
}

// AwaitsRejected reports whether a member was rejected at Permit and still has its node. If so, it
// records that the gang waits until the member gives up the node. Call it only for members that
// have a node. A member that failed before Permit has given up its node, although it may be marked
// as rejected.
func (o *Placements) AwaitsRejected(uid types.UID, key types.NamespacedName) bool {
	o.Rejecting.Lock()
	defer o.Rejecting.Unlock()
	return o.records.IsRejected(string(uid)) && o.records.Awaits(string(uid), gang.KeyOf(key))
}

// sealedQueue returns the queue in the seal of a pod that is bound or assumed; "" for none.
func (o *Placements) sealedQueue(pod *corev1.Pod) string {
	if name := gang.QueueInSeal(pod); name != "" {
		return name
	}
	return gang.SealedQueue(o.records.SealOf(string(pod.UID)))
}

// DepartureOf returns whether planning counts a pod as running, terminating or overdue. A
// terminating pod is overdue if its node does not respond, a finalizer keeps it, or its grace
// period is too long.
func (o *Placements) DepartureOf(pod *corev1.Pod) snapshot.Departure {
	switch {
	case pod.DeletionTimestamp != nil && o.leaving.IsOverdue(pod.UID):
		return snapshot.Overdue
	case o.leavesLate(pod):
		return snapshot.LeavesLate
	case pod.DeletionTimestamp != nil || o.leaving.Has(pod):
		return snapshot.Leaves
	default:
		return snapshot.Stays
	}
}

// leavesLate reports whether the grace period of a terminating pod is longer than planning waits.
// Such a pod counts as usage of its queue from the beginning, because its owner may have chosen the
// period.
func (o *Placements) leavesLate(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && o.index.Profiles.DepartureLimits().Cut(pod)
}

// IsLeaving reports whether planning counts a pod as gone because it is terminating.
func (o *Placements) IsLeaving(pod *corev1.Pod) bool { return o.DepartureOf(pod).IsLeaving() }

// ScheduledCondition returns the PodScheduled condition of a pod; nil if the pod has none.
func ScheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	_, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
	return c
}
