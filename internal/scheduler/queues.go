package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Board is where the books of the queues are kept. Whoever follows Queues tells [Hub.QueueSet] and
// [Hub.QueueDeleted].
func (h *Hub) Board() *queue.Board { return h.board }

// queueOf names the leaf queue of a pod: its group's, or the one in its own label. It is "" for none, and for all
// where there are no queues.
func (h *Hub) queueOf(pod *corev1.Pod) string {
	if !h.board.Used() {
		return ""
	}
	if g := h.group(pod); g != nil {
		return queueOfGroup(g, h.queueLabel(pod))
	}
	return pod.Labels[h.queueLabel(pod)]
}

// queueLabel is the label by which a pod's profile has queues named.
func (h *Hub) queueLabel(pod *corev1.Pod) string {
	if args := h.profiles.of(pod.Spec.SchedulerName); args != nil {
		return *args.QueueLabelKey
	}
	return v1alpha1.LabelQueue
}

func queueOfGroup(g *gang.Group, label string) string {
	if g.Queue != "" {
		return g.Queue
	}
	return g.Labels[label]
}

// queueOfGroup names the leaf queue of a group, whose label is the one of its members' profile.
func (h *Hub) queueOfGroup(g *gang.Group) string {
	if !h.board.Used() {
		return ""
	}
	return h.namedQueue(g)
}

// namedQueue is queueOfGroup even where there are no queues.
func (h *Hub) namedQueue(g *gang.Group) string {
	if g.Queue != "" || len(g.Labels) == 0 {
		return g.Queue
	}
	members := h.lister.Members(g.Key)
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending} {
		for _, pod := range pods {
			return queueOfGroup(g, h.queueLabel(pod))
		}
	}
	return queueOfGroup(g, v1alpha1.LabelQueue)
}

// MinRuntime is how long a group is guarded by min-runtimes, at most, once it runs. Where no queue says anything, the
// arguments of the profile that schedules the members count; preemptors of another profile go by their own.
func (h *Hub) MinRuntime(g *gang.Group, members *gang.Members) time.Duration {
	var otherwise queue.MinRuntimes
	for _, pod := range slices.Concat(members.Assigned, members.Pending) {
		args := h.profiles.of(pod.Spec.SchedulerName)
		if args == nil {
			continue
		}
		if !*args.WorkloadAware {
			// The members are guarded one by one.
			return 0
		}
		otherwise = queue.MinRuntimes{
			Preempt: args.PreemptMinRuntime.Duration, Reclaim: args.ReclaimMinRuntime.Duration,
			FromLeaf: *args.ReclaimResolveMethod == configv1alpha1.ResolveQueue,
		}
		break
	}
	return h.board.Protection(h.queueOfGroup(g), otherwise)
}

// Orphaned says why members that run are not in the queue that their group names; the zero Verdict where they are.
// Before is whether that was said already.
func (h *Hub) Orphaned(g *gang.Group, before bool) gang.Verdict {
	return h.board.Orphaned(h.namedQueue(g), before)
}

// QueueSet takes in a Queue that has come or changed, which nobody may change from now on. Any goroutine may call it.
func (h *Hub) QueueSet(q *v1alpha1.Queue) {
	if h.board.SetQueue(q) && h.pods != nil {
		all, err := h.pods.List(labels.Everything())
		if err != nil {
			klog.Background().Error(err, "List pods to charge them to their queues")
		}
		for _, pod := range all {
			h.chargeAgain(pod)
		}
		h.mirror.renew()
		h.wakeNamed(all)
	}
	h.queuesChanged()
}

// wakeNamed lets pending pods try again that name a queue: they went by priority as long as there was none.
func (h *Hub) wakeNamed(pods []*corev1.Pod) {
	owners := sets.New[owner]()
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && h.queueOf(pod) != "" {
			owners.Insert(h.ownerOf(pod))
		}
	}
	for o := range owners {
		h.wake(o)
	}
}

// QueueDeleted drops a Queue. Any goroutine may call it.
func (h *Hub) QueueDeleted(name string) {
	h.board.DeleteQueue(name)
	h.queuesChanged()
}

// queuesChanged lets everyone try again for whom other queues may make a difference.
func (h *Hub) queuesChanged() {
	h.unseat()
	h.wakeLimited()
	h.timers.fire()
}

// unseat takes back what has been promised to work that its queue does not let have it any more: others would wait for
// that room as long as the work does.
func (h *Hub) unseat() {
	for _, o := range h.seats.owners() {
		// While calls are under way for an owner, it is looked at when they are over.
		if !h.isEvicting(o) && h.isBarred(o) {
			h.displace(context.Background(), o, "its queue has changed")
		}
	}
}

// isBarred reports whether an owner has been promised room that its queue does not let it have: the work is in another
// queue now, the queue cannot be used, or a limit has become too low.
func (h *Hub) isBarred(o owner) bool {
	seats := h.seats.of(o)
	if len(seats) == 0 || seats[0].queue == "" || !h.board.Used() {
		return false
	}
	name := seats[0].queue
	requests := make([]queue.Amounts, 0, len(seats))
	own := sets.New[types.UID]()
	for _, s := range seats {
		pod := s.pod.GetPod()
		// Newer than what the seat was made with.
		if now, err := h.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && now.UID == s.uid && h.queueOf(now) != name {
			return true
		}
		requests = append(requests, queue.RequestOf(pod))
		own.Insert(s.uid)
	}
	if h.board.Check(name) != (gang.Verdict{}) {
		return true
	}
	n, _ := h.board.Room(name, requests, h.promised(func(pod *corev1.Pod) bool { return own.Has(pod.UID) }))
	return n < len(requests)
}

// wakeLimited lets everyone try again whom a queue kept waiting.
func (h *Hub) wakeLimited() {
	h.mu.Lock()
	waiting := h.atLimit.UnsortedList()
	clear(h.atLimit)
	h.mu.Unlock()
	for _, o := range waiting {
		if g, ok := h.groups.Group(o.NamespacedName); o.gang && ok && !g.IsGang() {
			h.activate(h.lister.Members(o.NamespacedName).Pending...)
		} else {
			h.wake(o)
		}
	}
}

// ask asks what a queue has against an owner, and remembers whom it keeps waiting. It remembers before it asks, so
// that whoever changes the answer meanwhile finds somebody to wake.
func (h *Hub) ask(o owner, question func() gang.Verdict) gang.Verdict {
	h.mu.Lock()
	h.atLimit.Insert(o)
	h.mu.Unlock()
	v := question()
	if v == (gang.Verdict{}) {
		h.mu.Lock()
		h.atLimit.Delete(o)
		h.mu.Unlock()
	}
	return v
}

// charge has a pod count for its queue.
func (h *Hub) charge(pod *corev1.Pod) {
	if h.board.Used() {
		h.board.Charge(pod, h.queueOf(pod))
	}
}

// chargeDelay is when a preemptor is tried again that was decided on before the books knew of it.
const chargeDelay = 200 * time.Millisecond

// isCharged reports whether the books know what a preemptor asks for. Its queue has no share of that before; the
// scheduler's queue may hear of a pod first.
func (h *Hub) isCharged(pre *preemptor) bool {
	if pre.queue == "" || !h.board.Used() {
		return true
	}
	return !slices.ContainsFunc(pre.pods, func(pod *corev1.Pod) bool { return h.exists(pod) && !h.board.Knows(pod.UID) })
}

// chargeGroup has the members of a group count for its queue.
func (h *Hub) chargeGroup(key types.NamespacedName) {
	if !h.board.Used() {
		return
	}
	members := h.lister.Members(key)
	for _, pods := range [...][]*corev1.Pod{members.Assigned, members.Pending, members.Terminating} {
		for _, pod := range pods {
			h.chargeAgain(pod)
		}
	}
}

// chargeAgain has a pod count for its queue as it is now, on a goroutine that is not told of pods: it may have changed or
// gone since it was listed, and whoever is told of it may have been here before.
func (h *Hub) chargeAgain(pod *corev1.Pod) {
	for h.board.Used() {
		now, err := h.pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID {
			h.board.Forget(pod.UID)
			return
		}
		h.charge(now)
		if after, err := h.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && after == now {
			return
		}
	}
}

// watchNodes keeps the books of what there is to share.
func (h *Hub) watchNodes(handle framework.Framework) (cache.ResourceEventHandlerRegistration, error) {
	set := func(obj any) {
		node, ok := obj.(*corev1.Node)
		switch {
		case !ok:
		case isClosed(node):
			h.board.SetClosedNode(node.Name, queue.AmountsOf(node.Status.Allocatable))
		default:
			h.board.SetNode(node.Name, queue.AmountsOf(node.Status.Allocatable))
		}
	}
	return handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				h.board.SetNode(node.Name, nil)
			}
		},
	})
}

// isClosed reports whether a node takes no pods for now: it is cordoned, or not ready.
func isClosed(node *corev1.Node) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// withinLimits cuts the pods of a preemptor down to those that the limits of its queue leave room for. It says what is
// in the way where that is not enough.
func (h *Hub) withinLimits(pre *preemptor) gang.Verdict {
	if !h.board.Used() || pre.queue == "" {
		return gang.Verdict{}
	}
	requests := make([]queue.Amounts, len(pre.pods))
	for i, pod := range pre.pods {
		requests[i] = queue.RequestOf(pod)
	}
	n, over := h.board.Room(pre.queue, requests, h.promised(pre.owns))
	if n < max(pre.minCount, 1) {
		return gang.Verdict{Reason: v1alpha1.ReasonQueueLimit, Message: over.Sentence()}
	}
	pre.pods = pre.pods[:n]
	return gang.Verdict{}
}

// leaveToOthers takes the surplus of a gang out of where its members are to go that its queue's fair share has no room
// for, as long as work of other queues waits for its turn: they would reclaim it.
func (h *Hub) leaveToOthers(pre *preemptor, nodes map[types.UID]string) {
	least := max(pre.minCount, 1)
	if pre.queue == "" || len(nodes) <= least || !h.board.Used() || !h.turns.othersWait(pre.queue, h.clock.Now()) {
		return
	}
	standing := h.board.Standing(h.board.Resources())
	if standing == nil {
		return
	}
	var placed []*corev1.Pod
	var requests []queue.Amounts
	for _, pod := range pre.pods {
		if nodes[pod.UID] != "" {
			placed, requests = append(placed, pod), append(requests, queue.RequestOf(pod))
		}
	}
	n := standing.Within(pre.queue, requests, h.board.Unplaced(h.promised(pre.owns)))
	for _, pod := range placed[max(n, least):] {
		delete(nodes, pod.UID)
	}
}

// keptByQueue says what its queue has against a single pod: that it cannot be in it, or the limit.
func (h *Hub) keptByQueue(pod *corev1.Pod) gang.Verdict {
	if !h.board.Used() {
		return gang.Verdict{}
	}
	o := h.ownerOf(pod)
	name := h.queueOf(pod)
	return h.ask(o, func() gang.Verdict {
		if v := h.board.Check(name); v != (gang.Verdict{}) {
			return v
		}
		return h.withinLimits(&preemptor{owner: o, uid: pod.UID, queue: name, minCount: 1, pods: []*corev1.Pod{pod}})
	})
}

// promised are the pods that have a place without the API server knowing: an assumed node, or a seat. Seats of some are
// left out.
func (h *Hub) promised(except func(*corev1.Pod) bool) []types.UID {
	out := h.assumed.list()
	h.seats.each(func(_ string, seats []*seat) {
		for _, s := range seats {
			if !except(s.pod.GetPod()) {
				out = append(out, s.uid)
			}
		}
	})
	return out
}
