package scheduler

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// awaitsReturn reports whether members of a gang are on their way back: turned away where they wait for the others, or with their
// places still in what this cycle has seen. The gang is tried again when they are back. A decision before would take from others what
// they are about to give back.
func (p *Plugin) awaitsReturn(key types.NamespacedName, members *gang.Members) bool {
	found, told := false, false
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) && p.hub.awaitsRejected(pod.UID, key) {
			found, told = true, true
			continue
		}
		node := p.hub.records.ReturnsFrom(string(pod.UID))
		if node == "" {
			continue
		}
		if info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node); err != nil || !snapshot.RunsOn(info, pod.UID) {
			p.hub.records.HasReturned(string(pod.UID))
			continue
		}
		found = true
		told = p.hub.records.Awaits(string(pod.UID), gangKey(key)) || told
	}
	if found && !told {
		// All have been forgotten since the cycle began.
		p.hub.tryReturned(gangKey(key))
	}
	return found
}

// awaitsRejected has a gang wait for a member that has been turned away at Permit, and reports whether it has been. Ask only of one that
// has its place still: one that met an error before it waited there gave its place up, and may have been turned away after that.
func (o *occupancy) awaitsRejected(uid types.UID, key types.NamespacedName) bool {
	o.rejecting.Lock()
	defer o.rejecting.Unlock()
	return o.records.IsRejected(string(uid)) && o.records.Awaits(string(uid), gangKey(key))
}

// tryReturned has a gang tried again now that its members are back. Woken in its cycle, it would back off.
func (h *Hub) tryReturned(gang workload.Key) {
	h.waits.Gather(gang, h.clock.Now().Add(leastCacheDelay))
}
