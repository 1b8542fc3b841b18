package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// claimOf returns the queue that a pod counts for, and whether the pod may use it; see
// [queue.Ledger.Claim]. The pod's group names the queue, or else the pod's label.
func (b *ledger) claimOf(pod *corev1.Pod) queue.Claim { return b.quotas.Claim(b.workOf(pod)) }

// claimOfGroup returns the queue that a group counts for, and whether its waiting members may use
// it.
func (b *ledger) claimOfGroup(g *gang.Group, members *gang.Members) queue.Claim {
	return b.quotas.Claim(b.workOfMembers(g, members, nil))
}

// asksForQueues reports whether queues can block work. This is the case if the cluster has queues,
// or if a profile requires one.
func (b *ledger) asksForQueues() bool {
	return b.quotas.Used() || b.index.profiles.RequireQueues()
}

// queueOf returns the leaf queue that a pod counts for; "" for none, and in a cluster without
// queues.
func (b *ledger) queueOf(pod *corev1.Pod) string {
	if !b.quotas.Used() {
		return ""
	}
	return b.claimOf(pod).Queue
}

// queueOfGroup returns the leaf queue that a group counts for; "" for none.
func (b *ledger) queueOfGroup(g *gang.Group) string {
	if !b.quotas.Used() {
		return ""
	}
	if g.Queue != "" {
		// Look at the members only if the group alone may not use its queue.
		work := queue.Work{Namespace: g.Key.Namespace, Named: g.Queue, Ours: true, Placed: true, Priority: queue.Unknown}
		if c := b.quotas.Claim(work); c.Bar == (gang.Verdict{}) {
			return c.Queue
		}
	}
	return b.quotas.Claim(b.workOfGroup(g)).Queue
}

// queueOfWork returns the leaf queue that a workload counts for; false if the workload does not
// exist.
func (b *ledger) queueOfWork(key workload.Key) (string, bool) {
	if key.Gang {
		g, ok := b.index.groups.Group(nameOf(key))
		if !ok {
			return "", false
		}
		return b.queueOfGroup(g), true
	}
	pod, ok := b.index.podOf(key)
	if !ok {
		return "", false
	}
	return b.queueOf(pod), true
}

// workOf describes a pod for the quota ledger. For a pod with a node, the queue is the one in its
// seal.
func (b *ledger) workOf(pod *corev1.Pod) queue.Work {
	label := b.index.queueLabel(pod)
	w := queue.Work{Namespace: pod.Namespace, Named: b.index.namedQueue(pod), Pod: pod.UID}
	w.Ours, w.Required = b.index.servesQueues(pod)
	w.Placed = pod.Spec.NodeName != "" || b.records.IsAssumed(string(pod.UID))
	w.Priority = corev1helpers.PodPriority(pod)
	if g := b.index.group(pod); g != nil {
		w.Named = queueNamedBy(g, label)
		if g.Priority != nil {
			w.Priority = *g.Priority
		}
	}
	if sealed := b.placements.sealedQueue(pod); sealed != "" {
		w.Named = sealed
	}
	return w
}

// workOfGroup describes a group for the quota ledger.
func (b *ledger) workOfGroup(g *gang.Group) queue.Work {
	if g.Queue == "" && len(g.Labels) == 0 && !b.quotas.HasDefault(g.Key.Namespace) {
		return queue.Work{Namespace: g.Key.Namespace, Priority: queue.Unknown}
	}
	// Read the assumed pods first. A member that is bound between the two reads is then among the
	// assigned members.
	assumed := b.records.Assumed()
	members := b.index.lister.Members(g.Key)
	return b.workOfMembers(g, &members, assumed)
}

// workOfMembers describes a group for the quota ledger, by its members. The profile of the first
// member counts. assumed are the pods that were assumed before the members were listed.
func (b *ledger) workOfMembers(g *gang.Group, members *gang.Members, assumed engine.Set) queue.Work {
	w := queue.Work{Namespace: g.Key.Namespace, Named: queueNamedBy(g, v1alpha1.LabelQueue), Priority: ptr.Deref(g.Priority, queue.Unknown)}
	known := false
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending} {
		for _, pod := range pods {
			if !known {
				known = true
				w.Named = queueNamedBy(g, b.index.queueLabel(pod))
				w.Ours, w.Required = b.index.servesQueues(pod)
			}
			if !w.Placed && (pod.Spec.NodeName != "" || members.Reserved.Has(pod.UID) || assumed.Has(string(pod.UID)) || b.records.IsAssumed(string(pod.UID))) {
				w.Placed, w.Pod = true, pod.UID
			}
			if g.Priority == nil && pod.Spec.NodeName == "" {
				// The queue's maximum priority must cover every member.
				w.Priority = max(w.Priority, corev1helpers.PodPriority(pod))
			}
		}
	}
	return w
}

// servesQueues reports whether a pod belongs to a profile of this scheduler, and whether that
// profile rejects work without a queue.
func (r *clusterIndex) servesQueues(pod *corev1.Pod) (ours, required bool) {
	args := r.profiles.Of(pod.Spec.SchedulerName)
	if args == nil {
		return false, false
	}
	return true, ptr.Deref(args.Queues.Required, false)
}

// namedQueue returns the queue that a pod itself names.
func (r *clusterIndex) namedQueue(pod *corev1.Pod) string {
	return queue.NamedBy(pod, r.queueLabel(pod), r.derived)
}

// queueLabel returns the key of the label that names a queue, for the pod's profile.
func (r *clusterIndex) queueLabel(pod *corev1.Pod) string {
	if args := r.profiles.Of(pod.Spec.SchedulerName); args != nil {
		return *args.QueueLabelKey
	}
	return v1alpha1.LabelQueue
}

// queueNamedBy returns the queue that a group itself names, in its spec or by a label.
func queueNamedBy(g *gang.Group, label string) string {
	if g.Queue != "" {
		return g.Queue
	}
	return g.Labels[label]
}

// standingOf returns the standing of a pod. While a pause forbids the pod's workload to preempt
// (see [engine.PreemptionPause]), the standing has the lowest priority.
func (b *ledger) standingOf(pod *corev1.Pod) workload.Standing {
	standing := workload.Standing{Priority: b.index.priorityOf(pod), Queue: b.queueOf(pod)}
	if b.backsOff(b.index.keyOf(pod)) {
		standing.Priority = workload.LowestPriority
	}
	return standing
}

// minRuntime returns the longest protection that min-runtimes give a running group. If no queue
// sets a min-runtime, the arguments of the members' profile count. The preemptor's profile does not
// matter.
func (b *ledger) minRuntime(g *gang.Group, members *gang.Members) time.Duration {
	for _, pod := range slices.Concat(members.Assigned, members.Pending) {
		if args := b.index.profiles.Of(pod.Spec.SchedulerName); args != nil && !*args.WorkloadAware {
			// In such a profile, each member is protected separately.
			return 0
		}
	}
	return b.protection(g, members, &core.MinRuntime{})
}

// protection returns the longest protection that min-runtimes give a running group. otherwise has
// the min-runtimes for members whose profile is not known.
func (b *ledger) protection(g *gang.Group, members *gang.Members, otherwise *core.MinRuntime) time.Duration {
	if of := b.index.minRuntimeOfMembers(members); of != nil {
		otherwise = of
	}
	return b.quotas.Protection(b.queueOfGroup(g), queue.MinRuntimes{
		Preempt: time.Duration(otherwise.Preempt), Reclaim: time.Duration(otherwise.Reclaim), FromLeaf: otherwise.Resolve == core.ResolveQueue,
	})
}

// orphaned returns the reason why a group's running members do not count for the queue that the
// group names. The Verdict is zero if they do count. before is true if this reason was reported
// already.
func (b *ledger) orphaned(g *gang.Group, before bool) gang.Verdict {
	work := b.workOfGroup(g)
	return b.quotas.Orphaned(b.quotas.NameFor(work), before)
}
