package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// members returns the members of a group as planning counts them. Members that will terminate are
// in Terminating, so no member is placed beside them. The assumed pods are read before the
// informer. So a member that is bound between the two reads is counted in any case.
func (o *placements) members(key types.NamespacedName) gang.Members {
	reserved := sets.New(typed(o.gangs.Reserved(gangKey(key)))...)
	m := o.index.lister.Members(key)
	m.Reserved = reserved
	m.Assigned, m.Terminating = o.leaving.Part(m.Assigned, m.Terminating)
	return m
}

// departureOf returns whether planning counts a pod as running, terminating or overdue. A
// terminating pod is overdue if its node does not respond, a finalizer keeps it, or its grace
// period is too long.
func (o *placements) departureOf(pod *corev1.Pod) snapshot.Departure {
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
func (o *placements) leavesLate(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" && o.index.profiles.DepartureLimits().Cut(pod)
}

// departing returns the UIDs of the pods on nodes that terminate or are being evicted, without
// overdue pods. The usage of these pods does not count against limits.
func (b *ledger) departing() []types.UID {
	out := sets.New(slices.Concat(b.quotas.Going(), b.leaving.Taken())...)
	for key, pods := range b.leaving.Listings() {
		for _, p := range pods {
			if pod, err := b.index.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID && b.placements.isLeaving(pod) {
				out.Insert(p.UID)
			}
		}
	}
	return slices.DeleteFunc(out.UnsortedList(), b.leaving.IsOverdue)
}

// isLeaving reports whether planning counts a pod as gone because it is terminating.
func (o *placements) isLeaving(pod *corev1.Pod) bool { return o.departureOf(pod).IsLeaving() }

// disrupted records the members that a PodGroup lists as disrupted, and handles members that are no
// longer listed.
func (ds *departures) disrupted(key types.NamespacedName, pods []v1alpha1.DisruptedPod) {
	for _, p := range ds.leaving.List(key, pods) {
		if pod, err := ds.index.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID {
			ds.stays(pod)
		}
	}
}

// sweep handles victims that keep running after their eviction ended. For example, the deletion of
// a member failed and its PodGroup was deleted. Or a pod was returned to the queue and was bound
// after all. The main loop calls it.
func (ds *departures) sweep(now time.Time) {
	for _, pod := range ds.leaving.Sweep(now) {
		ds.stays(pod)
	}
}

// stays retries and returns the workloads that count on the end of a pod that will not terminate.
// It does nothing if the pod is terminating or gone. pod may be an old version from a snapshot.
func (ds *departures) stays(pod *corev1.Pod) []workload.Key {
	now, err := ds.index.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID || ds.placements.isLeaving(now) {
		return nil
	}
	ds.cluster.NodeChanged(pod.Spec.NodeName)
	ds.rooms.doubt(now.Spec.NodeName)
	misled := retriedBy(ds.steps.step(engine.VictimStays{Pod: string(pod.UID)}))
	// Work at its limit may count on the end of a pod on any node.
	ds.retries.atLimit(ds.quotas.LimitsOn(ds.ledger.queueOf(now)))
	if g := ds.index.gangOf(now); g != nil {
		// The pod does not terminate, so other members of its gang can be placed again.
		ds.ledger.updateGroupState(g.Key)
		ds.retries.soon(g.Key)
	}
	return misled
}
