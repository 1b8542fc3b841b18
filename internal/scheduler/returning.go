package scheduler

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// awaitsReturn reports whether members of a gang are about to return to the queue. Such a member
// was rejected at Permit, or the snapshot of this cycle still has the member on its node. A
// decision now would evict other pods, although the members are about to free room. The gang is
// retried when all these members are back.
func (p *Plugin) awaitsReturn(key types.NamespacedName, members *gang.Members) bool {
	found, told := false, false
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) && p.sched.placements.AwaitsRejected(pod.UID, key) {
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
		// All members have returned since the cycle began.
		p.sched.retries.returned(gangKey(key))
	}
	return found
}
