package invariants

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// soonGone is a grace period in seconds. If a terminating pod has at most this grace period, its
// room counts as free.
const soonGone = 30

// checkEntitled finds single pods that have been entitled to room, as defined by isEntitled, for
// longer than the bound.
func (c *Checker) checkEntitled(now time.Time) {
	at := c.time.at(now)
	for _, pod := range c.pods {
		if !c.isEntitled(pod) {
			delete(c.entitled, pod.UID)
			continue
		}
		since, before := c.entitled[pod.UID]
		if !before {
			c.counts.Judged[EntitlementDelayed]++
			c.entitled[pod.UID] = at
			continue
		}
		waited := at - since
		c.counts.Entitled = max(c.counts.Entitled, waited)
		if waited > c.bounds.Entitled {
			c.violate(EntitlementDelayed, now, "pod %s waits for %v, and queue %s is within its quota", keyOf(pod), waited.Round(time.Second), c.unitOf(pod).queue())
			// Do not report the pod again during the run.
			c.entitled[pod.UID] = at + 24*time.Hour
		}
	}
}

// isEntitled reports whether a waiting single pod must get a node soon. These conditions must hold:
//
//   - The quota and the limits of its queue suffice for all waiting pods of the queue that could
//     use the same nodes.
//   - The nodes have room for these pods if pods that yield are evicted.
//   - All other pods that could use these nodes are in queues without quota, so they must yield.
func (c *Checker) isEntitled(pod *corev1.Pod) bool {
	u := c.unitOf(pod)
	queue := u.queue()
	if _, isMember := c.groupOf(pod); isMember || !isWaiting(pod) || queue == "" || !u.preempts() {
		return false
	}
	waiting, size := 0, requested(pod, corev1.ResourceCPU)
	for _, other := range c.pods {
		switch of := c.unitOf(other).queue(); {
		case !c.couldShareNodes(pod, other):
		case of == queue && isWaiting(other):
			waiting++
			size = max(size, requested(other, corev1.ResourceCPU))
		case of != queue && !c.hasNoQuota(of):
			return false
		}
	}
	if !c.isWithinQuota(queue, int64(waiting)*size) || !c.withinLimits(u, waiting) {
		return false
	}
	slots := int64(0)
	for name, room := range c.freeFor(pod, c.free()) {
		for _, other := range c.pods {
			if other.Spec.NodeName == name && hasNode(other) && c.yields(other, u) {
				room += requested(other, corev1.ResourceCPU)
			}
		}
		slots += max(room, 0) / max(size, 1)
	}
	return slots >= int64(waiting)
}

// couldShareNodes reports whether there is a node that the node selectors of both pods select.
func (c *Checker) couldShareNodes(a, b *corev1.Pod) bool {
	for _, node := range c.nodes {
		if isFor(node, a) && isFor(node, b) {
			return true
		}
	}
	return false
}

// hasNoQuota reports whether neither the queue nor its ancestors have a quota.
func (c *Checker) hasNoQuota(queue string) bool {
	path := c.path(queue)
	for _, q := range path {
		if quota := q.Spec.Quota[corev1.ResourceCPU]; !quota.IsZero() {
			return false
		}
	}
	return len(path) > 0
}

// isWithinQuota reports whether the quotas of a queue and of all its ancestors suffice for an
// additional amount in milli-CPUs.
func (c *Checker) isWithinQuota(queue string, amount int64) bool {
	path := c.path(queue)
	for _, q := range path {
		if quota := q.Spec.Quota[corev1.ResourceCPU]; c.used(q, corev1.ResourceCPU)+amount > quota.MilliValue() {
			return false
		}
	}
	return len(path) > 0
}

// yields reports whether a running or terminating pod will soon release its room for an entitled
// pod. The pod must be in a queue without quota. If it terminates, its grace period must be at most
// soonGone. If it does not terminate, no toleration may protect it. Its min-runtime is ignored,
// because it ends within the bound of the invariant.
func (c *Checker) yields(pod *corev1.Pod, to unit) bool {
	victim := c.unitOf(pod)
	if !c.hasNoQuota(victim.queue()) {
		return false
	}
	if pod.DeletionTimestamp != nil {
		return pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds <= soonGone
	}
	_, tolerates := c.toleratesUntil(victim, to.priority(), time.Time{})
	return !tolerates
}
