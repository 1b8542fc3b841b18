package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// The methods in this file answer questions of other packages: of the controllers, the Finisher,
// the derived groups and what-if questions. Any goroutine may call them.

// Members lists the members of a group.
func (h *Scheduler) Members(key types.NamespacedName) gang.Members {
	return h.index.Lister.Members(key)
}

// Anchored returns the pods with an anchor, including finished pods. An anchor is a key that the
// pods of a derived group share; see [gang.Derived].
func (h *Scheduler) Anchored(anchor string) []*corev1.Pod { return h.index.Lister.Anchored(anchor) }

// PriorityOf returns the effective priority of a pod.
func (h *Scheduler) PriorityOf(pod *corev1.Pod) int32 { return h.index.PriorityOf(pod) }

// KnowsDisruption reports whether decisions already count the members that the PodGroup lists as
// disrupted as gone.
func (h *Scheduler) KnowsDisruption(key types.NamespacedName) bool { return h.leaving.Lists(key) }

// Quotas returns the quota ledger. Code that watches Queues must not write to the ledger directly:
// it must call QueueSet and QueueDeleted.
func (h *Scheduler) Quotas() *queue.Ledger { return h.quotas }

// QueueOf returns the leaf queue that a pod counts for; "" for none. It is the queue of the pod's
// group, of the pod's label, or the default queue of the namespace.
func (h *Scheduler) QueueOf(pod *corev1.Pod) string { return h.ledger.QueueOf(pod) }

// QueueLabel returns the key of the label that names a queue, for the pod's profile.
func (h *Scheduler) QueueLabel(pod *corev1.Pod) string { return h.index.QueueLabel(pod) }

// QueueNamedBy returns the queue that a pod itself names.
func (h *Scheduler) QueueNamedBy(pod *corev1.Pod) string { return h.index.NamedQueue(pod) }

// QueueNamedByGroup returns the queue that a group names, or else the default queue of its
// namespace.
func (h *Scheduler) QueueNamedByGroup(g *gang.Group) string {
	return h.quotas.NameFor(h.ledger.WorkOfGroup(g))
}

// MinRuntime returns the longest protection that min-runtimes give a running group. If no queue
// sets a min-runtime, the arguments of the members' profile apply. The profile of the preemptor has
// no effect.
func (h *Scheduler) MinRuntime(g *gang.Group, members *gang.Members) time.Duration {
	return h.ledger.MinRuntime(g, members)
}

// Orphaned returns the reason why a group's running members do not count for the queue that the
// group names. The Verdict is zero if they do count. The argument before is true if this reason was
// reported already.
func (h *Scheduler) Orphaned(g *gang.Group, before bool) gang.Verdict {
	return h.ledger.Orphaned(g, before)
}

// GangGatedBy returns the reason why other plugins gate all pending members of a gang.
func (h *Scheduler) GangGatedBy(members *gang.Members) string {
	return h.index.GangGatedBy(members)
}

// BlockedDriver returns the reason why the bound on drivers blocks a pod; the zero Verdict if it
// does not.
func (h *Scheduler) BlockedDriver(pod *corev1.Pod) gang.Verdict {
	return h.drivers.Blocked(pod)
}

// VictimPriority returns the priority of a group as a potential victim, and the verdict on its
// preemptionPriorityClassName.
func (h *Scheduler) VictimPriority(g *gang.Group) (int32, gang.Verdict) {
	return h.victimPriorities.Of(g)
}

// StaleFrom returns the time when a degraded gang becomes stale, if its state does not change.
func (h *Scheduler) StaleFrom(key types.NamespacedName) time.Time {
	return h.stale.from(key)
}

// QueueDeleted handles the deletion of a Queue.
func (h *Scheduler) QueueDeleted(q *v1alpha1.Queue) {
	h.queues.deleted(q)
}

// QueueSet records a Queue that was created or changed.
func (h *Scheduler) QueueSet(q *v1alpha1.Queue) {
	h.queues.set(q)
}

// GroupChanged handles a created, changed or deleted PodGroup and checks its members again.
func (h *Scheduler) GroupChanged(key types.NamespacedName) {
	h.groupWatch.changed(key)
}

// MembershipChanged handles a pod whose derived group has changed, because more is known about the
// owner of the pod.
func (h *Scheduler) MembershipChanged(listed *corev1.Pod, before types.NamespacedName, was bool) {
	h.podWatch.membershipChanged(listed, before, was)
}

// PartChanged handles a created, changed or deleted CompositePodGroup, or a PodGroup that has or
// had a parent.
func (h *Scheduler) PartChanged(key types.NamespacedName, workloads []types.NamespacedName, moves []gang.Move) {
	h.podWatch.partChanged(key, workloads, moves)
}

// GroupSaved handles a change of a PodGroup's annotations about lost work. Any goroutine may call
// it once the scheduler runs.
func (h *Scheduler) GroupSaved(key types.NamespacedName) { h.cluster.GroupChanged(key) }

// TerminationTimeout returns how long planning waits for terminating pods after their grace period.
// It is the longest time of all profiles. Any goroutine may call it.
func (h *Scheduler) TerminationTimeout() time.Duration {
	return h.index.Profiles.DepartureLimits().Timeout
}

// MaxGracePeriod returns the longest grace period that planning waits for. It is the longest period
// of all profiles. Any goroutine may call it.
func (h *Scheduler) MaxGracePeriod() time.Duration { return h.index.Profiles.DepartureLimits().Grace }
