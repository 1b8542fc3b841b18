package scheduler

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

// charge charges a pod to its queue in the quota ledger, and returns the change.
func (b *ledger) charge(pod *corev1.Pod) queue.Change {
	if !b.quotas.Used() {
		return queue.Change{}
	}
	key, isMember := b.index.groupOf(pod)
	var of queue.Membership
	if isMember {
		of = b.index.membership(key)
	}
	change := b.chargeTo(pod, of)
	if isMember && change.Any {
		b.updateGroupState(key)
	}
	return change
}

// chargeTo charges a pod to its current queue. It reads the current queue while it holds a lock, so
// that the last of several concurrent calls stores the newest queue.
func (b *ledger) chargeTo(pod *corev1.Pod, of queue.Membership) queue.Change {
	b.charging.Lock()
	defer b.charging.Unlock()
	if pod.Spec.NodeName == "" && b.index.derived.Hold(pod) != (gang.Verdict{}) {
		// Until the group of a pod is known, the pod requests nothing.
		return b.quotas.Forget(pod.UID)
	}
	if b.isOnMissingNode(pod) {
		return b.quotas.Forget(pod.UID)
	}
	of.Overdue = b.leaving.IsOverdue(pod.UID) || b.placements.leavesLate(pod)
	return b.quotas.ChargeMember(pod, b.queueOf(pod), of)
}

func (b *ledger) chargeGroup(key types.NamespacedName) (all queue.Change) {
	if !b.quotas.Used() {
		return all
	}
	members := b.index.lister.Members(key)
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending, members.Terminating} {
		for _, pod := range pods {
			all = all.Add(b.recharge(pod))
		}
	}
	b.updateGroupState(key)
	return all
}

// recharge charges the current version of a pod to its queue. Goroutines other than the handler of
// the pod informer must use it, because a listed pod may be outdated. If the handler charges the
// pod during the call, recharge charges it again.
func (b *ledger) recharge(pod *corev1.Pod) (all queue.Change) {
	for b.quotas.Used() {
		now, err := b.index.pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID {
			return all.Add(b.quotas.Forget(pod.UID))
		}
		all = all.Add(b.charge(now))
		if after, err := b.index.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && after == now {
			break
		}
	}
	return all
}

// chargeAll charges the pods of a namespace that which accepts to their current queues. It returns
// the number of these pods that have a node, and the waiting workloads whose queue has changed.
func (b *ledger) chargeAll(namespace string, which func(*corev1.Pod) bool) (placed int, moved sets.Set[workload.Key]) {
	all, err := b.index.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "List pods to charge them to their queues")
	}
	groups := sets.New[types.NamespacedName]()
	moved = sets.New[workload.Key]()
	for _, pod := range all {
		if !which(pod) {
			continue
		}
		change := b.recharge(pod)
		if pod.Spec.NodeName != "" {
			placed++
		} else if change.Moved {
			moved.Insert(b.index.keyOf(pod))
		}
		if key, ok := b.index.groupOf(pod); ok {
			groups.Insert(key)
		}
	}
	for key := range groups {
		b.updateGroupState(key)
	}
	return placed, moved
}

// updateGroupState updates the state of a group in the quota ledger. The requests of pending
// members count as demand only while the group can be placed.
func (b *ledger) updateGroupState(key types.NamespacedName) {
	if !b.quotas.Pends(key) {
		return
	}
	// The lock serializes the calls, so the last call stores the newest state.
	b.groupStates.Lock()
	defer b.groupStates.Unlock()
	g, ok := b.index.groups.Group(key)
	if !ok {
		g = nil
	}
	members := b.placements.members(key)
	now := queue.GroupState{Held: gang.Gate(key, g, &members) != gang.Verdict{}}
	if g != nil {
		now.Held = now.Held || b.claimOfGroup(g, &members).Confined
		now.Need = max(g.MinCount-members.Placed(), 0)
	}
	b.quotas.SetGroupState(key, now)
}

// isCharged reports whether the quota ledger has the requests of pods of a queue. Without them, the
// queue gets no share for the pods. The scheduler's queue may learn of a pod before the ledger
// does.
func (b *ledger) isCharged(queue string, pods []*corev1.Pod) bool {
	if queue == "" || !b.quotas.Used() {
		return true
	}
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return b.index.exists(pod) && !b.quotas.Knows(pod.UID) })
}

// membership returns the group of pods and whether the group is evicted as a whole.
func (r *clusterIndex) membership(key types.NamespacedName) queue.Membership {
	g, ok := r.groups.Group(key)
	return queue.Membership{Group: key, Whole: ok && g.Whole}
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
