package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Reserve records that a member of a gang has passed its cycle. Workloads of lower standing release
// reservations that do not fit beside the pod any more.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	p.hub.heardOf(pod)
	p.hub.records.Assumes(string(pod.UID), podKey(pod), node)
	p.hub.seal(pod)
	p.hub.reserved.Use(pod.UID, node)
	p.hub.leaving.placed(pod.UID)
	if len(p.hub.reserved.On(node)) > 0 {
		p.hub.releaseCrowded(sets.New(node), p.hub.keyOf(pod))
	}
	g := p.hub.gangOf(pod)
	if g == nil {
		p.hub.takeBackBelow(p.hub.standingOf(pod))
		p.hub.engine.Placed(p.hub.keyOf(pod))
		return nil
	}
	if complete := p.hub.gangs.Reserve(gangKey(g.Key), string(pod.UID), node); complete {
		// Members without a place in the plan now wait for another turn and another leader.
		p.hub.turns.TurnOver(gangKey(g.Key))
		p.hub.wakeGang(g.Key)
	} else {
		p.hub.wakeNext(g.Key)
	}
	return nil
}

// Unreserve releases the whole gang: a gang is placed together or not at all.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	if key, tried := p.hub.records.HasTurn(string(pod.UID)); tried && !key.Gang {
		// The Reserve of another plugin rejected the pod before this plugin's Reserve, and the turn
		// of the pod must still end.
		p.hub.records.HearsReservation(string(pod.UID))
	} else {
		p.hub.heardOf(pod)
	}
	p.hub.records.GivesUp(string(pod.UID), p.hub.keyOf(pod), node)
	p.hub.touchDrivers(pod)
	if g := p.hub.gangOf(pod); g != nil {
		p.hub.release(g.Key, pod, fmt.Sprintf("member %s could not take its place on %s", pod.Name, node))
		return
	}
	// The PodGroup may have been deleted since.
	if key, ok := p.hub.groupOf(pod); ok {
		p.hub.release(key, pod, "its PodGroup is gone")
	}
}

// Permit makes members wait until minCount of them have passed their cycles.
func (p *Plugin) Permit(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	key, ok := p.hub.groupOf(pod)
	if !ok {
		return nil, 0
	}
	g, ok := p.hub.groups.Group(key)
	switch {
	case !ok:
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("PodGroup %s does not exist any more", key)), 0
	case !g.IsGang():
		return nil, 0
	}
	if p.hub.gangs.Lacks(gangKey(key)) {
		return fwk.NewStatus(fwk.Wait, fmt.Sprintf("%d more members of PodGroup %s are to come", p.hub.gangs.Planned(gangKey(key)), key)), p.args.Gang.PermitTimeout.Duration
	}
	members := p.hub.members(key)
	if through := p.hub.through(&members); through < g.MinCount {
		if p.hub.atMost(key, &members) < g.MinCount {
			// The plan was released while the member was on its way here, so no other members come.
			return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("the plan of PodGroup %s has been taken back", key)), 0
		}
		return fwk.NewStatus(fwk.Wait, fmt.Sprintf("%d of %d members of PodGroup %s are through", through, g.MinCount, key)), p.args.Gang.PermitTimeout.Duration
	}
	if why := p.hub.splitOver(key); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why), 0
	}
	logOf(ctx, gangKey(key)).V(2).Info("Enough members of a gang are through", "members", g.MinCount)
	p.hub.allow(key)
	return nil, 0
}

// atMost counts the members that have passed their cycles or will. It includes planned members, and
// members that may still be sent back for other preemptors.
func (o *occupancy) atMost(key types.NamespacedName, members *gang.Members) int {
	count := members.Placed() + o.gangs.Planned(gangKey(key))
	o.rejecting.Lock()
	defer o.rejecting.Unlock()
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) && !o.records.IsRejected(string(pod.UID)) {
			count++
		}
	}
	return count
}

// allow ends the wait of all members of a gang at Permit.
func (h *Hub) allow(key types.NamespacedName) {
	h.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if k, ok := h.groupOf(w.GetPod()); ok && k == key {
			w.Allow(Name)
		}
	})
}
