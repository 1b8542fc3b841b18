package scheduler

import (
	"sync"

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
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// claimOf answers which queue a pod counts for, and whether it may: its group's, or the one in its own label; see
// [queue.Board.Claim].
func (b *books) claimOf(pod *corev1.Pod) queue.Claim { return b.board.Claim(b.workOf(pod)) }

// workOf describes a pod as what asks for a queue.
func (b *books) workOf(pod *corev1.Pod) queue.Work {
	label := b.QueueLabel(pod)
	w := queue.Work{Namespace: pod.Namespace, Named: b.QueueNamedBy(pod), Pod: pod.UID}
	w.Ours, w.Required = b.servesQueues(pod)
	w.Placed = pod.Spec.NodeName != "" || b.records.IsAssumed(string(pod.UID))
	w.Priority = corev1helpers.PodPriority(pod)
	if g := b.group(pod); g != nil {
		w.Named = queueNamedBy(g, label)
		if g.Priority != nil {
			w.Priority = *g.Priority
		}
	}
	return w
}

// servesQueues reports whether a pod is for a profile of this scheduler, and whether that takes no work without a queue.
func (r *roster) servesQueues(pod *corev1.Pod) (ours, required bool) {
	args := r.profiles.of(pod.Spec.SchedulerName)
	if args == nil {
		return false, false
	}
	return true, ptr.Deref(args.Queues.Required, false)
}

// queueOf names the leaf queue that a pod counts for. It is "" for none, and for all where there are no queues.
func (b *books) queueOf(pod *corev1.Pod) string {
	if !b.board.Used() {
		return ""
	}
	return b.claimOf(pod).Queue
}

// QueueOf is which leaf queue a pod counts for: its group's, or the one in its own label, or the default of its namespace; "" for
// none, and for all where there are no queues. Any goroutine may call it.
func (b *books) QueueOf(pod *corev1.Pod) string { return b.queueOf(pod) }

// QueueNamedBy is the queue that a pod names by itself. Any goroutine may call it.
func (r *roster) QueueNamedBy(pod *corev1.Pod) string {
	return queue.NamedBy(pod, r.QueueLabel(pod), r.derived)
}

// QueueLabel is the label by which a pod's profile has queues named.
func (r *roster) QueueLabel(pod *corev1.Pod) string {
	if args := r.profiles.of(pod.Spec.SchedulerName); args != nil {
		return *args.QueueLabelKey
	}
	return v1alpha1.LabelQueue
}

// queueNamedBy is the queue that a group names by itself.
func queueNamedBy(g *gang.Group, label string) string {
	if g.Queue != "" {
		return g.Queue
	}
	return g.Labels[label]
}

// queueOfGroup names the leaf queue that a group counts for.
func (b *books) queueOfGroup(g *gang.Group) string {
	if !b.board.Used() {
		return ""
	}
	if g.Queue != "" {
		// Its members need not be looked at, but where it cannot be in its queue.
		work := queue.Work{Namespace: g.Key.Namespace, Named: g.Queue, Ours: true, Placed: true, Priority: queue.Unknown}
		if c := b.board.Claim(work); c.Bar == (gang.Verdict{}) {
			return c.Queue
		}
	}
	return b.board.Claim(b.workOfGroup(g)).Queue
}

// queueOfWork is the leaf queue that a workload counts for; false for one that has gone.
func (b *books) queueOfWork(key workload.Key) (string, bool) {
	if key.Gang {
		g, ok := b.groups.Group(nameOf(key))
		if !ok {
			return "", false
		}
		return b.queueOfGroup(g), true
	}
	pod, ok := b.podOf(key)
	if !ok {
		return "", false
	}
	return b.queueOf(pod), true
}

// workOfGroup describes a group as what asks for a queue.
func (b *books) workOfGroup(g *gang.Group) queue.Work {
	if g.Queue == "" && len(g.Labels) == 0 && !b.board.HasDefault(g.Key.Namespace) {
		return queue.Work{Namespace: g.Key.Namespace, Priority: queue.Unknown}
	}
	// Before the members are listed: one that is bound meanwhile is among those with a node.
	assumed := b.records.Assumed()
	members := b.lister.Members(g.Key)
	return b.workOfMembers(g, &members, assumed)
}

// workOfMembers goes by the members: their profile is the group's. assumed has pods that were
// assumed on a node before the members were listed.
func (b *books) workOfMembers(g *gang.Group, members *gang.Members, assumed engine.Set) queue.Work {
	w := queue.Work{Namespace: g.Key.Namespace, Named: queueNamedBy(g, v1alpha1.LabelQueue), Priority: ptr.Deref(g.Priority, queue.Unknown)}
	known := false
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending} {
		for _, pod := range pods {
			if !known {
				known = true
				w.Named = queueNamedBy(g, b.QueueLabel(pod))
				w.Ours, w.Required = b.servesQueues(pod)
			}
			if !w.Placed && (pod.Spec.NodeName != "" || members.Reserved.Has(pod.UID) || assumed.Has(string(pod.UID)) || b.records.IsAssumed(string(pod.UID))) {
				w.Placed, w.Pod = true, pod.UID
			}
			if g.Priority == nil && pod.Spec.NodeName == "" {
				// None of them is to stand higher than the queue lets it.
				w.Priority = max(w.Priority, corev1helpers.PodPriority(pod))
			}
		}
	}
	return w
}

// asksForQueues reports whether work may have to be in a queue, or may not be in the one that it names.
func (b *books) asksForQueues() bool { return b.board.Used() || b.profiles.requireQueues.Load() }

// claimOfGroup answers which queue a group counts for, and whether its members that wait may.
func (b *books) claimOfGroup(g *gang.Group, members *gang.Members) queue.Claim {
	return b.board.Claim(b.workOfMembers(g, members, nil))
}

// keptOffQueues says why a single pod may not be in its queue, or be in none. It waits for that to change.
func (h *Hub) keptOffQueues(pod *corev1.Pod) gang.Verdict {
	if !h.asksForQueues() {
		return gang.Verdict{}
	}
	bar := func() gang.Verdict { return h.claimOf(pod).Bar }
	key, v := podKey(pod), bar()
	if v != (gang.Verdict{}) {
		v = h.ask(key, admission.Access, bar)
		h.waits.LeaveTurns(key)
	}
	if _, drives := h.driverOf(pod); v != (gang.Verdict{}) || !drives {
		// Of a driver that may be in its queue, barSingleDriver has the last word.
		h.sayKeptOff(pod, v)
	}
	return v
}

// sayKeptOff records why a single pod is gated, for its condition; the zero Verdict for one that is
// not.
func (h *Hub) sayKeptOff(pod *corev1.Pod, v gang.Verdict) {
	if h.telling.keptOff.set(pod, v); v != (gang.Verdict{}) && !h.awaitsPlace(pod) {
		// It has been forgotten already, and would not be again.
		h.waits.Forget(podKey(pod))
		h.telling.keptOff.forget(pod.UID)
	}
}

// notHeldAnyMore drops what was said of a group that may be in its queue now.
func (o *occupancy) notHeldAnyMore(key types.NamespacedName) {
	if v := o.registry.Verdict(key); queue.IsBar(v) || v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
		o.registry.SetVerdict(key, gang.Verdict{})
	}
}

// keptOff has the single pods that may not be in their queue. PreEnqueue adds them, under the queue's lock; they are told later.
// The zero value is ready to use, and safe for concurrent use.
type keptOff struct {
	mu   sync.Mutex
	pods map[types.UID]*keptOffPod
}

// keptOffPod is one of them. What it is told is zero once it may be in its queue.
type keptOffPod struct {
	name           types.NamespacedName
	verdict, tells gang.Verdict
}

// set takes note of why a pod may not be in its queue; the zero Verdict for one that may.
func (k *keptOff) set(pod *corev1.Pod, v gang.Verdict) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.pods[pod.UID]
	switch {
	case ok:
		known.verdict = v
	case v != gang.Verdict{}:
		if k.pods == nil {
			k.pods = make(map[types.UID]*keptOffPod)
		}
		k.pods[pod.UID] = &keptOffPod{name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, verdict: v}
	}
}

// forget drops a pod that has a node, or is gone.
func (k *keptOff) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, uid)
}

// keptOffWord is what one pod is to say.
type keptOffWord struct {
	uid     types.UID
	name    types.NamespacedName
	verdict gang.Verdict
	// again is true where the pod has told of the same reason before.
	again bool
}

// untold picks those that do not say what they should, at most so many, and counts them as told.
func (k *keptOff) untold(most int) []keptOffWord {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []keptOffWord
	for uid, pod := range k.pods {
		if len(out) == most {
			break
		}
		if pod.verdict != pod.tells {
			out = append(out, keptOffWord{uid, pod.name, pod.verdict, pod.tells.Reason == pod.verdict.Reason})
			pod.tells = pod.verdict
		}
		if pod.verdict == (gang.Verdict{}) {
			delete(k.pods, uid)
		}
	}
	return out
}

// tellKeptOff has single pods say why they may not be in their queue, in their condition and by an event.
func (t *teller) tellKeptOff() {
	for _, word := range t.keptOff.untold(tellBatch) {
		pod, err := t.pods.Pods(word.name.Namespace).Get(word.name.Name)
		if err != nil || pod.UID != word.uid || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		v := word.verdict
		if v == (gang.Verdict{}) {
			v = gang.Verdict{Reason: v1alpha1.ReasonPending, Message: "waiting for its turn"}
		} else if recorder := t.profiles.recorder(pod.Spec.SchedulerName); recorder != nil && v.Reason == v1alpha1.ReasonDriversWithoutWorkers {
			if !word.again {
				// Which drivers are in the way changes often; the condition has it.
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

// watchTenants follows what the access to queues depends on beside Queues: namespaces, and PriorityClasses. The result reports
// whether it has heard of all that there were at the start.
func (h *Hub) watchTenants(namespaces, classes cache.SharedIndexInformer) ([]cache.InformerSynced, error) {
	setNamespace := func(obj any) {
		if ns, ok := obj.(*corev1.Namespace); ok && h.board.SetNamespace(ns) {
			h.tenantsChanged(ns.Name)
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
				h.board.DeleteNamespace(ns.Name)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	setClass := func(obj any) {
		if class, ok := obj.(*schedulingv1.PriorityClass); ok && h.board.SetClass(class.Name, class.Value) {
			h.boundsChanged()
		}
	}
	toldOfClasses, err := classes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    setClass,
		UpdateFunc: func(_, obj any) { setClass(obj) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if class, ok := obj.(*schedulingv1.PriorityClass); ok && h.board.DeleteClass(class.Name) {
				h.boundsChanged()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return []cache.InformerSynced{toldOfNamespaces.HasSynced, toldOfClasses.HasSynced}, nil
}

// tenantsChanged follows a change of the access to queues, or of the default of a namespace.
func (h *Hub) tenantsChanged(namespace string) {
	if h.board.Used() {
		placed, moved := h.chargeAll(namespace, func(*corev1.Pod) bool { return true })
		if placed > 0 {
			h.cluster.Invalidate()
		}
		h.takeBackBarred()
		h.ended(admission.Queue)
		for key := range moved {
			h.changedQueue(key)
		}
	}
	h.ended(admission.Access)
}

// boundsChanged follows a change of the priorities that queues take. What is placed counts as before.
func (h *Hub) boundsChanged() {
	h.chargeAnew()
	h.takeBackBarred()
	h.ended(admission.Queue)
	h.ended(admission.Access)
}

// chargeAnew has the pods that wait count for their queues as these are now, and start over where that is another one. Of those on nodes,
// some count for a queue from now on that had no access to it, as those of other schedulers.
func (h *Hub) chargeAnew() {
	placed, moved := h.chargeAll(metav1.NamespaceAll, func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == "" || h.board.CountsFor(pod.UID) != h.queueOf(pod)
	})
	if placed > 0 {
		h.cluster.Invalidate()
	}
	for key := range moved {
		h.changedQueue(key)
	}
}

// chargeAll has some pods of a namespace count for their queues as these are now. It counts those of them that have a node, and returns
// the work that waits in another queue since.
func (b *books) chargeAll(namespace string, which func(*corev1.Pod) bool) (placed int, moved sets.Set[workload.Key]) {
	all, err := b.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "List pods to charge them to their queues")
	}
	groups := sets.New[types.NamespacedName]()
	moved = sets.New[workload.Key]()
	for _, pod := range all {
		if !which(pod) {
			continue
		}
		change := b.chargeAgain(pod)
		if pod.Spec.NodeName != "" {
			placed++
		} else if change.Moved {
			moved.Insert(b.keyOf(pod))
		}
		if key, ok := b.groupOf(pod); ok {
			groups.Insert(key)
		}
	}
	for key := range groups {
		b.tellGroupState(key)
	}
	return placed, moved
}
