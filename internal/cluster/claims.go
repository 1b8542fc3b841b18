package cluster

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

// ClaimOf returns the queue that a pod counts for, and whether the pod may use it; see
// [queue.Ledger.Claim]. The pod's group names the queue, or else the pod's label.
func (b *Ledger) ClaimOf(pod *corev1.Pod) queue.Claim { return b.quotas.Claim(b.workOf(pod)) }

// ClaimOfGroup returns the queue that a group counts for, and whether its waiting members may use
// it.
func (b *Ledger) ClaimOfGroup(g *gang.Group, members *gang.Members) queue.Claim {
	return b.quotas.Claim(b.workOfMembers(g, members, nil))
}

// AsksForQueues reports whether queues can block work. This is the case if the cluster has queues,
// or if a profile requires one.
func (b *Ledger) AsksForQueues() bool {
	return b.quotas.Used() || b.index.Profiles.RequireQueues()
}

// QueueOf returns the leaf queue that a pod counts for; "" for none, and in a cluster without
// queues.
func (b *Ledger) QueueOf(pod *corev1.Pod) string {
	if !b.quotas.Used() {
		return ""
	}
	return b.ClaimOf(pod).Queue
}

// QueueOfGroup returns the leaf queue that a group counts for; "" for none.
func (b *Ledger) QueueOfGroup(g *gang.Group) string {
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
	return b.quotas.Claim(b.WorkOfGroup(g)).Queue
}

// QueueOfWork returns the leaf queue that a workload counts for; false if the workload does not
// exist.
func (b *Ledger) QueueOfWork(key workload.Key) (string, bool) {
	if key.Gang {
		g, ok := b.index.Groups.Group(gang.NameOf(key))
		if !ok {
			return "", false
		}
		return b.QueueOfGroup(g), true
	}
	pod, ok := b.index.PodOf(key)
	if !ok {
		return "", false
	}
	return b.QueueOf(pod), true
}

// workOf describes a pod for the quota ledger. For a pod with a node, the queue is the one in its
// seal.
func (b *Ledger) workOf(pod *corev1.Pod) queue.Work {
	label := b.index.QueueLabel(pod)
	w := queue.Work{Namespace: pod.Namespace, Named: b.index.NamedQueue(pod), Pod: pod.UID}
	w.Ours, w.Required = b.index.servesQueues(pod)
	w.Placed = pod.Spec.NodeName != "" || b.records.IsAssumed(string(pod.UID))
	w.Priority = corev1helpers.PodPriority(pod)
	if g := b.index.Group(pod); g != nil {
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

// WorkOfGroup describes a group for the quota ledger.
func (b *Ledger) WorkOfGroup(g *gang.Group) queue.Work {
	if g.Queue == "" && len(g.Labels) == 0 && !b.quotas.HasDefault(g.Key.Namespace) {
		return queue.Work{Namespace: g.Key.Namespace, Priority: queue.Unknown}
	}
	// Read the assumed pods first. A member that is bound between the two reads is then among the
	// assigned members.
	assumed := b.records.Assumed()
	members := b.index.Lister.Members(g.Key)
	return b.workOfMembers(g, &members, assumed)
}

// workOfMembers describes a group for the quota ledger, by its members. The profile of the first
// member counts. assumed are the pods that were assumed before the members were listed.
func (b *Ledger) workOfMembers(g *gang.Group, members *gang.Members, assumed engine.Set) queue.Work {
	w := queue.Work{Namespace: g.Key.Namespace, Named: queueNamedBy(g, v1alpha1.LabelQueue), Priority: ptr.Deref(g.Priority, queue.Unknown)}
	known := false
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending} {
		for _, pod := range pods {
			if !known {
				known = true
				w.Named = queueNamedBy(g, b.index.QueueLabel(pod))
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
func (r *Index) servesQueues(pod *corev1.Pod) (ours, required bool) {
	args := r.Profiles.Of(pod.Spec.SchedulerName)
	if args == nil {
		return false, false
	}
	return true, ptr.Deref(args.Queues.Required, false)
}

// NamedQueue returns the queue that a pod itself names.
func (r *Index) NamedQueue(pod *corev1.Pod) string {
	return queue.NamedBy(pod, r.QueueLabel(pod), r.Derived)
}

// QueueLabel returns the key of the label that names a queue, for the pod's profile.
func (r *Index) QueueLabel(pod *corev1.Pod) string {
	if args := r.Profiles.Of(pod.Spec.SchedulerName); args != nil {
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

// StandingOf returns the standing of a pod. While a pause forbids the pod's workload to preempt
// (see [engine.PreemptionPause]), the standing has the lowest priority.
func (b *Ledger) StandingOf(pod *corev1.Pod) workload.Standing {
	standing := workload.Standing{Priority: b.index.PriorityOf(pod), Queue: b.QueueOf(pod)}
	if b.BacksOff(b.index.KeyOf(pod)) {
		standing.Priority = workload.LowestPriority
	}
	return standing
}

// MinRuntime returns the longest protection that min-runtimes give a running group. If no queue
// sets a min-runtime, the arguments of the members' profile count. The preemptor's profile does not
// matter.
func (b *Ledger) MinRuntime(g *gang.Group, members *gang.Members) time.Duration {
	for _, pod := range slices.Concat(members.Assigned, members.Pending) {
		if args := b.index.Profiles.Of(pod.Spec.SchedulerName); args != nil && !*args.WorkloadAware {
			// In such a profile, each member is protected separately.
			return 0
		}
	}
	return b.Protection(g, members, &core.MinRuntime{})
}

// Protection returns the longest protection that min-runtimes give a running group. otherwise has
// the min-runtimes for members whose profile is not known.
func (b *Ledger) Protection(g *gang.Group, members *gang.Members, otherwise *core.MinRuntime) time.Duration {
	if of := b.index.MinRuntimeOfMembers(members); of != nil {
		otherwise = of
	}
	return b.quotas.Protection(b.QueueOfGroup(g), queue.MinRuntimes{
		Preempt: time.Duration(otherwise.Preempt), Reclaim: time.Duration(otherwise.Reclaim), FromLeaf: otherwise.Resolve == core.ResolveQueue,
	})
}

// Orphaned returns the reason why a group's running members do not count for the queue that the
// group names. The Verdict is zero if they do count. before is true if this reason was reported
// already.
func (b *Ledger) Orphaned(g *gang.Group, before bool) gang.Verdict {
	work := b.WorkOfGroup(g)
	return b.quotas.Orphaned(b.quotas.NameFor(work), before)
}
