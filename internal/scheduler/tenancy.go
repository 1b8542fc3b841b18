package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// claimOf returns the queue that a pod counts for, and whether the pod may use it; see
// [queue.Ledger.Claim]. The pod's group names the queue, or else the pod's label.
func (b *ledger) claimOf(pod *corev1.Pod) queue.Claim { return b.quotas.Claim(b.workOf(pod)) }

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

// servesQueues reports whether a pod belongs to a profile of this scheduler, and whether that
// profile rejects work without a queue.
func (r *clusterIndex) servesQueues(pod *corev1.Pod) (ours, required bool) {
	args := r.profiles.Of(pod.Spec.SchedulerName)
	if args == nil {
		return false, false
	}
	return true, ptr.Deref(args.Queues.Required, false)
}

// queueOf returns the leaf queue that a pod counts for; "" for none, and in a cluster without
// queues.
func (b *ledger) queueOf(pod *corev1.Pod) string {
	if !b.quotas.Used() {
		return ""
	}
	return b.claimOf(pod).Queue
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

// asksForQueues reports whether queues can block work. This is the case if the cluster has queues,
// or if a profile requires one.
func (b *ledger) asksForQueues() bool {
	return b.quotas.Used() || b.index.profiles.RequireQueues()
}

// claimOfGroup returns the queue that a group counts for, and whether its waiting members may use
// it.
func (b *ledger) claimOfGroup(g *gang.Group, members *gang.Members) queue.Claim {
	return b.quotas.Claim(b.workOfMembers(g, members, nil))
}

// queueBlocks returns the verdict on a single pod that may not use its queue, or lacks a required
// queue. Such a pod waits for a change of the queues. For other pods, the verdict is zero.
func (gs *gates) queueBlocks(pod *corev1.Pod) gang.Verdict {
	if !gs.ledger.asksForQueues() {
		return gang.Verdict{}
	}
	bar := func() gang.Verdict { return gs.ledger.claimOf(pod).Bar }
	key, v := podKey(pod), bar()
	if v != (gang.Verdict{}) {
		v = gs.askQueue(key, engine.Access, bar)
		gs.turns.Forget(key)
	}
	if _, drives := gs.index.driverOf(pod); v != (gang.Verdict{}) || !drives {
		// For a driver that may use its queue, driverBounds.blockSingle sets the condition.
		gs.placements.setBlocked(pod, v)
	}
	return v
}

// setBlocked records why a single pod is gated, so that its condition reports it. The zero Verdict
// means that the pod is not gated.
func (o *placements) setBlocked(pod *corev1.Pod, v gang.Verdict) {
	if v == (gang.Verdict{}) {
		o.records.Unblocked(string(pod.UID))
		return
	}
	o.records.Blocked(string(pod.UID), podKey(pod), v)
}

// notHeldAnyMore clears the verdict of a group that its queue or the bound on drivers blocked,
// because that cause has ended.
func (o *placements) notHeldAnyMore(key types.NamespacedName) {
	if v := o.gangs.Verdict(gangKey(key)); queue.IsBar(v) || v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
		o.gangs.SetVerdict(gangKey(key), gang.Verdict{})
	}
}

// tellBlocked reports to single pods why they may not use their queue, by conditions and events.
func (t *reporter) tellBlocked() {
	for _, report := range t.records.Reports(tellBatch) {
		pod, ok := t.index.podOf(report.Key)
		if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		v := report.Verdict
		if v == (gang.Verdict{}) {
			v = gang.Verdict{Reason: v1alpha1.ReasonPending, Message: "waiting for its turn"}
		} else if recorder := t.index.profiles.Recorder(pod.Spec.SchedulerName); recorder != nil && v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
			if !report.Again {
				// The event does not name the blocking drivers, because they change often. The
				// condition names them.
				recorder.Eventf(pod, nil, corev1.EventTypeNormal, v.Reason, "Scheduling", "the pod waits: %s", v.Message)
			}
		} else if recorder != nil && v.Reason != v1alpha1.ReasonPending {
			recorder.Eventf(pod, nil, corev1.EventTypeWarning, v.Reason, "Scheduling", "the pod waits: %s", v.Message)
		}
		t.statuses.Say(pod, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: v.Reason, Message: v.Message,
			ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, corev1.PodScheduled),
		})
	}
}

// watch registers the handlers for namespaces and PriorityClasses, which determine the access to
// queues. The returned functions report whether the handlers have seen all objects that existed at
// the start.
func (qc *queueChanges) watch(namespaces, classes cache.SharedIndexInformer) ([]cache.InformerSynced, error) {
	setNamespace := func(obj any) {
		if ns, ok := obj.(*corev1.Namespace); ok && qc.quotas.SetNamespace(ns) {
			qc.tenantsChanged(ns.Name)
		}
	}
	toldOfNamespaces, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    setNamespace,
		UpdateFunc: func(_, obj any) { setNamespace(obj) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if ns, ok := obj.(*corev1.Namespace); ok {
				qc.quotas.DeleteNamespace(ns.Name)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	setClass := func(obj any) {
		if class, ok := obj.(*schedulingv1.PriorityClass); ok && qc.quotas.SetClass(class.Name, class.Value) {
			qc.priorityBoundsChanged()
		}
	}
	toldOfClasses, err := classes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    setClass,
		UpdateFunc: func(_, obj any) { setClass(obj) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if class, ok := obj.(*schedulingv1.PriorityClass); ok && qc.quotas.DeleteClass(class.Name) {
				qc.priorityBoundsChanged()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return []cache.InformerSynced{toldOfNamespaces.HasSynced, toldOfClasses.HasSynced}, nil
}

// tenantsChanged handles a change of a namespace's access to queues, or of its default queue.
func (qc *queueChanges) tenantsChanged(namespace string) {
	if qc.quotas.Used() {
		placed, moved := qc.ledger.chargeAll(namespace, func(*corev1.Pod) bool { return true })
		if placed > 0 {
			qc.cluster.Invalidate()
		}
		qc.victimPriorities.review()
		qc.releases.disallowed()
		qc.retries.ended(engine.Queue)
		for key := range moved {
			qc.releases.changedQueue(key)
		}
	}
	qc.retries.ended(engine.Access)
}

// priorityBoundsChanged handles a change of the priorities that queues accept. Placed work is not
// affected.
func (qc *queueChanges) priorityBoundsChanged() {
	qc.rechargeWaiting()
	qc.victimPriorities.review()
	qc.releases.disallowed()
	qc.retries.ended(engine.Queue)
	qc.retries.ended(engine.Access)
}

// rechargeWaiting charges waiting pods to their current queues, and restarts workloads whose queue
// has changed. It also charges a pod with a node if the queue of the pod has changed. For example,
// pods of other schedulers may have gained access to a queue.
func (qc *queueChanges) rechargeWaiting() {
	placed, moved := qc.ledger.chargeAll(metav1.NamespaceAll, func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == "" || qc.quotas.CountsFor(pod.UID) != qc.ledger.queueOf(pod)
	})
	if placed > 0 {
		qc.cluster.Invalidate()
	}
	for key := range moved {
		qc.releases.changedQueue(key)
	}
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
