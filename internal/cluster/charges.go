package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Charge charges a pod to its queue in the quota ledger, and returns the change.
func (b *Ledger) Charge(pod *corev1.Pod) queue.Change {
	if !b.quotas.Used() {
		return queue.Change{}
	}
	key, isMember := b.index.GroupOf(pod)
	var of queue.Membership
	if isMember {
		of = b.index.membership(key)
	}
	change := b.chargeTo(pod, of)
	if isMember && change.Any {
		b.UpdateGroupState(key)
	}
	return change
}

// chargeTo charges a pod to its current queue. It reads the current queue while it holds a lock, so
// that the last of several concurrent calls stores the newest queue.
func (b *Ledger) chargeTo(pod *corev1.Pod, of queue.Membership) queue.Change {
	b.charging.Lock()
	defer b.charging.Unlock()
	if pod.Spec.NodeName == "" && b.index.Derived.Hold(pod) != (gang.Verdict{}) {
		// Until the group of a pod is known, the pod requests nothing.
		return b.quotas.Forget(pod.UID)
	}
	if b.isOnMissingNode(pod) {
		return b.quotas.Forget(pod.UID)
	}
	of.Overdue = b.leaving.IsOverdue(pod.UID) || b.placements.leavesLate(pod)
	return b.quotas.ChargeMember(pod, b.QueueOf(pod), of)
}

// ChargeGroup charges the members of a group to their queues, and returns the changes.
func (b *Ledger) ChargeGroup(key types.NamespacedName) (all queue.Change) {
	if !b.quotas.Used() {
		return all
	}
	members := b.index.Lister.Members(key)
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending, members.Terminating} {
		for _, pod := range pods {
			all = all.Add(b.Recharge(pod))
		}
	}
	b.UpdateGroupState(key)
	return all
}

// Recharge charges the current version of a pod to its queue. Goroutines other than the handler of
// the pod informer must use it, because a listed pod may be outdated. If the handler charges the
// pod during the call, recharge charges it again.
func (b *Ledger) Recharge(pod *corev1.Pod) (all queue.Change) {
	for b.quotas.Used() {
		now, err := b.index.Pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID {
			return all.Add(b.quotas.Forget(pod.UID))
		}
		all = all.Add(b.Charge(now))
		if after, err := b.index.Pods.Pods(pod.Namespace).Get(pod.Name); err == nil && after == now {
			break
		}
	}
	return all
}

// ChargeAll charges the pods of a namespace that which accepts to their current queues. It returns
// the number of these pods that have a node, and the waiting workloads whose queue has changed.
func (b *Ledger) ChargeAll(namespace string, which func(*corev1.Pod) bool) (placed int, moved sets.Set[workload.Key]) {
	all, err := b.index.Pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "List pods to charge them to their queues")
	}
	groups := sets.New[types.NamespacedName]()
	moved = sets.New[workload.Key]()
	for _, pod := range all {
		if !which(pod) {
			continue
		}
		change := b.Recharge(pod)
		if pod.Spec.NodeName != "" {
			placed++
		} else if change.Moved {
			moved.Insert(b.index.KeyOf(pod))
		}
		if key, ok := b.index.GroupOf(pod); ok {
			groups.Insert(key)
		}
	}
	for key := range groups {
		b.UpdateGroupState(key)
	}
	return placed, moved
}

// UpdateGroupState updates the state of a group in the quota ledger. The requests of pending
// members count as demand only while the group can be placed.
func (b *Ledger) UpdateGroupState(key types.NamespacedName) {
	if !b.quotas.Pends(key) {
		return
	}
	// The lock serializes the calls, so the last call stores the newest state.
	b.groupStates.Lock()
	defer b.groupStates.Unlock()
	g, ok := b.index.Groups.Group(key)
	if !ok {
		g = nil
	}
	members := b.placements.Members(key)
	now := queue.GroupState{Held: gang.Gate(key, g, &members) != gang.Verdict{}}
	if g != nil {
		now.Held = now.Held || b.ClaimOfGroup(g, &members).Confined
		now.Need = max(g.MinCount-members.Placed(), 0)
	}
	b.quotas.SetGroupState(key, now)
}

// IsCharged reports whether the quota ledger has the requests of pods of a queue. Without them, the
// queue gets no share for the pods. The scheduler's queue may learn of a pod before the ledger
// does.
func (b *Ledger) IsCharged(queue string, pods []*corev1.Pod) bool {
	if queue == "" || !b.quotas.Used() {
		return true
	}
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return b.index.Exists(pod) && !b.quotas.Knows(pod.UID) })
}

// membership returns the group of pods and whether the group is evicted as a whole.
func (r *Index) membership(key types.NamespacedName) queue.Membership {
	g, ok := r.Groups.Group(key)
	return queue.Membership{Group: key, Whole: ok && g.Whole}
}

// Departing returns the UIDs of the pods on nodes that terminate or are being evicted, without
// overdue pods. The usage of these pods does not count against limits.
func (b *Ledger) Departing() []types.UID {
	out := sets.New(slices.Concat(b.quotas.Going(), b.leaving.Taken())...)
	for key, pods := range b.leaving.Listings() {
		for _, p := range pods {
			if pod, err := b.index.Pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID && b.placements.IsLeaving(pod) {
				out.Insert(p.UID)
			}
		}
	}
	return slices.DeleteFunc(out.UnsortedList(), b.leaving.IsOverdue)
}
