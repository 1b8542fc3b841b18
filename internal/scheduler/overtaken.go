package scheduler

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
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
			const why = "a preemptor of a higher priority takes a node of its plan"
			happened(logOf(ctx, key), "Called an eviction off", why)
			p.hub.takeBack(key, why)
			if !p.hub.waits.Evicting(key) {
				// The eviction has ended meanwhile, and left it to the departure of its victims.
				p.hub.wake(key)
			}
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

// isCrowdedOut reports whether one of the nodes lacks room for what a workload is promised there, once the pods on their way out have gone.
func (p *Plugin) isCrowdedOut(ctx context.Context, key workload.Key, nodes sets.Set[string], arriving *corev1.Pod) bool {
	for _, r := range p.hub.reserved.Of(key) {
		if !nodes.Has(r.Node) {
			continue
		}
		fits, err := p.staysFitting(ctx, r, arriving)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Look at a node that is promised to two", "node", r.Node)
			continue
		}
		if !fits {
			return true
		}
	}
	return false
}

// staysFitting reports whether a node has room for a reservation beside the pods that stay, one that arrives, and all that is kept
// from it.
func (p *Plugin) staysFitting(ctx context.Context, r *reservation.Reservation, arriving *corev1.Pod) (bool, error) {
	now, err := p.handle.SnapshotSharedLister().NodeInfos().Get(r.Node)
	if err != nil {
		return false, err
	}
	then := now.Snapshot()
	for _, pi := range now.GetPods() {
		if p.hub.isLeaving(pi.GetPod()) {
			if err := then.RemovePod(klog.FromContext(ctx), pi.GetPod()); err != nil {
				return false, err
			}
		}
	}
	if arriving != nil {
		pi, err := framework.NewPodInfo(arriving)
		if err != nil {
			return false, err
		}
		then.AddPodInfo(pi)
	}
	s := p.seekerOf(r.Pod, r.Standing)
	return s.fitsBeside(then, heldFrom(p.hub.reserved.On(r.Node), now, r.Standing, r.UID)), nil
}
