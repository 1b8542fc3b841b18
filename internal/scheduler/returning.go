package scheduler

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// awaitsReturn reports whether members of a gang are about to return to the queue. Such members
// were rejected at Permit, or the snapshot of this cycle still has them on their nodes. The gang is
// retried when all of them are back. A decision before that would evict other pods although the
// members are about to free room.
func (p *Plugin) awaitsReturn(key types.NamespacedName, members *gang.Members) bool {
	found, told := false, false
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) && p.sched.awaitsRejected(pod.UID, key) {
			found, told = true, true
			continue
		}
		node := p.sched.records.ReturnsFrom(string(pod.UID))
		if node == "" {
			continue
		}
		if info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node); err != nil || !snapshot.RunsOn(info, pod.UID) {
			p.sched.records.HasReturned(string(pod.UID))
			continue
		}
		found = true
		told = p.sched.records.Awaits(string(pod.UID), gangKey(key)) || told
	}
	if found && !told {
		// The framework has forgotten all of them since the cycle began.
		p.sched.retryReturned(gangKey(key))
	}
	return found
}

// awaitsRejected reports whether a member was rejected at Permit and still has its place. If so, it
// records that the gang waits for the member to give up the place. Call it only for members with a
// place. A member that failed before Permit has given its place up, and may have been rejected
// later.
func (o *placements) awaitsRejected(uid types.UID, key types.NamespacedName) bool {
	o.rejecting.Lock()
	defer o.rejecting.Unlock()
	return o.records.IsRejected(string(uid)) && o.records.Awaits(string(uid), gangKey(key))
}

// retryReturned schedules a retry of a gang whose members are back. Activating the gang during its
// cycle would make it back off.
func (h *Scheduler) retryReturned(gang workload.Key) {
	h.waits.Gather(gang, h.clock.Now().Add(leastCacheDelay))
}
