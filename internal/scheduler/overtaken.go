package scheduler

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// overtake takes back what is promised to workloads whose evictions are under way and whose plans do not stand any more, because
// one of a higher standing takes room on these nodes: their last victims would go for nothing. As few as have to give way. Their
// evictions stop where they are, and they are planned anew once these are over. A pod that arrives is on its way to its node;
// everything else that is promised is in the book.
//
// An eviction goes on that makes the very room which the other one counts on, where that is among these pods: it may not be allowed
// to take it by itself, and both would take turns.
func (p *Plugin) overtake(ctx context.Context, nodes sets.Set[string], by workload.Standing, arriving *corev1.Pod, counted ...*corev1.Pod) {
	for _, key := range p.evictingBelow(nodes, by) {
		makesRoom := slices.ContainsFunc(counted, func(pod *corev1.Pod) bool { return p.hub.waits.WaitsForVictim(key, string(pod.UID)) })
		if !makesRoom && p.isCrowdedOut(ctx, key, nodes, arriving) {
			logOf(ctx, key).V(2).Info("Called an eviction off", "reason", "one of a higher standing takes room of its plan")
			p.hub.takeBack(key, "a preemptor of a higher priority takes a node of its plan")
		}
	}
}

// evictingBelow are the workloads with evictions under way that are promised room on the nodes and do not keep it from a standing.
// Those of the highest priority come first: it is by them whether there is room for the others.
func (p *Plugin) evictingBelow(nodes sets.Set[string], standing workload.Standing) []workload.Key {
	keys := slices.DeleteFunc(p.hub.reserved.Yielding(nodes, standing), func(key workload.Key) bool { return !p.hub.waits.Evicting(key) })
	slices.SortStableFunc(keys, func(x, y workload.Key) int { return cmp.Compare(p.promisedAt(y), p.promisedAt(x)) })
	return keys
}

// promisedAt is the priority at which a workload was promised its room.
func (p *Plugin) promisedAt(key workload.Key) int32 {
	for _, r := range p.hub.reserved.Of(key) {
		return r.Priority
	}
	return 0
}

// isCrowdedOut reports whether one of the nodes lacks room for what a workload is promised there, once those have gone who leave.
func (p *Plugin) isCrowdedOut(ctx context.Context, key workload.Key, nodes sets.Set[string], arriving *corev1.Pod) bool {
	for _, r := range p.hub.reserved.Of(key) {
		if !nodes.Has(r.Node) {
			continue
		}
		then, err := p.asPromised(ctx, r, arriving)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Look at a node that is promised to two", "node", r.Node)
			continue
		}
		if p.isShort(then, r.Pod.CalculateResource().Resource) {
			return true
		}
	}
	return false
}

// asPromised is the node of a reservation as it is to be: without those who leave, and with it, with all that is kept from it, and
// with a pod that arrives.
func (p *Plugin) asPromised(ctx context.Context, r *reservation.Reservation, arriving *corev1.Pod) (fwk.NodeInfo, error) {
	now, err := p.handle.SnapshotSharedLister().NodeInfos().Get(r.Node)
	if err != nil {
		return nil, err
	}
	then := now.Snapshot()
	for _, pi := range now.GetPods() {
		if p.hub.isLeaving(pi.GetPod()) {
			if err := then.RemovePod(klog.FromContext(ctx), pi.GetPod()); err != nil {
				return nil, err
			}
		}
	}
	for _, other := range p.hub.reserved.On(r.Node) {
		if (other.UID == r.UID || other.KeepsFrom(r.Standing)) && !other.IsUsedOn(now) {
			then.AddPodInfo(other.Pod)
		}
	}
	if arriving != nil {
		pi, err := framework.NewPodInfo(arriving)
		if err != nil {
			return nil, err
		}
		then.AddPodInfo(pi)
	}
	return then, nil
}

// isShort reports whether a node has given out more than it has of what a request is for.
func (p *Plugin) isShort(node fwk.NodeInfo, request fwk.Resource) bool {
	room, used := node.GetAllocatable(), node.GetRequested()
	short := func(of func(fwk.Resource) int64) bool { return of(request) > 0 && of(used) > of(room) }
	if len(node.GetPods()) > room.GetAllowedPodNumber() || short(fwk.Resource.GetMilliCPU) || short(fwk.Resource.GetMemory) ||
		short(fwk.Resource.GetEphemeralStorage) {
		return true
	}
	for name := range request.GetScalarResources() {
		if !p.resources.Ignores(name) && short(func(r fwk.Resource) int64 { return r.GetScalarResources()[name] }) {
			return true
		}
	}
	return false
}
