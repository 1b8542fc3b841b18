package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Hub is what the plugins of all profiles in one scheduler share: it hears of pods, groups, queues and nodes, and has workloads try
// again. What it goes by stands in layers, each of which sees those below it only: roster, occupancy, books. [Plugins] makes it.
type Hub struct {
	*books
	evictor Evictor
	// handle is the framework of the first profile. Waiting pods, nominations and the queue are the same for the handles
	// of all profiles.
	handle framework.Framework
	// moved is true where pods have left their nodes, or got one, since gangs without a leader were looked at.
	moved atomic.Bool
	// told report whether the hub has heard of all pods, finished ones too, of all nodes and of all tenants that there were at the start.
	told []cache.InformerSynced

	// cluster is the core's picture of the cluster, and tolerations are those of PriorityClasses in it.
	cluster     *snapshot.Cache
	tolerations *snapshot.ClassTolerations
	// waits has which workload waits for what, and whose turn it is.
	waits *admission.List
	// judgeNext is when the main loop judges again whether there is plenty of room, at the earliest.
	judgeNext time.Time
	// nominees are all pods that the API says are nominated.
	nominees reservation.Nominees
	// unbound has the preemptions that did not end in a binding.
	unbound admission.Unbound
	// driversChanged has a token when the main loop must check the blocked drivers.
	driversChanged chan struct{}
	// doubted are nodes that may not be able to fulfill what is reserved there.
	doubted *doubts
	// runs says since when groups are whole, and outcomes which have lost a member that may count all the same.
	runs *gang.Runs
	// stale are the gangs that have lacked members for too long.
	stale staleGangs
	// kept has the gangs that had room kept from other work.
	kept     keptRooms
	outcomes outcomes
	// executions are the orders whose outcome is waited for, and wanted has those that are to go on.
	executions executions
	wanted     wants
	// terms are what groups say of how far their members are protected.
	terms terms
	// refused has what the API server refuses to have deleted.
	refused *eviction.Refusals

	// telling has pods say what keeps them.
	telling *teller
	// decisions has a record of decisions.
	decisions DecisionLog
	// witness writes down what they go by.
	witness Witness
	// finished are the members that have finished.
	finished cache.SharedIndexInformer
	// leads is set once this process schedules.
	leads atomic.Bool

	clock   clock.WithTicker
	metrics *metrics.Metrics
}

// newHub makes the Hub of a scheduler, which follows pods, nodes and classes until ctx is done.
func newHub(ctx context.Context, in *Inputs, handle framework.Framework) (*Hub, error) {
	finished, startFinished := in.informerOfFinished(handle)
	r, err := in.rosterOf(handle.SharedInformerFactory(), finished)
	if err != nil {
		return nil, err
	}
	h := in.assemble(r, handle, finished)
	if err := h.follow(handle.SharedInformerFactory()); err != nil {
		return nil, err
	}
	startFinished(ctx)
	go func() {
		// The framework gets the queue in which it activates pods after its plugins. The informers
		// start after that.
		if h.WaitForSync(ctx) {
			h.run(ctx)
		}
	}()
	return h, nil
}

// assemble makes a Hub that nothing has told of anything yet. The handle and what has finished may be nil for one that only keeps
// what it is told.
func (in *Inputs) assemble(r *roster, handle framework.Framework, finished cache.SharedIndexInformer) *Hub {
	h := &Hub{
		books:   &books{occupancy: &occupancy{roster: r, registry: in.Registry}, board: queue.NewBoard(), dips: newDips(dipTime)},
		evictor: in.Evictor, handle: handle, finished: finished, waits: admission.NewList(), metrics: in.Metrics, clock: in.Clock,
		decisions: in.Decisions, witness: in.Witness, refused: in.Refused, doubted: newDoubts(r.hasNode),
		driversChanged: make(chan struct{}, 1),
	}
	if h.witness == nil {
		h.witness = unwitnessed{}
	}
	if h.metrics == nil {
		h.metrics = metrics.New()
	}
	if h.decisions == nil {
		h.decisions = unrecorded{}
	}
	if h.clock == nil {
		h.clock = clock.RealClock{}
	}
	if h.refused == nil {
		h.refused = eviction.NewRefusals(h.clock)
	}
	h.reserved = reservation.New(&bookkeeper{h})
	h.backsOff = func(key workload.Key) bool {
		_, paused := h.unbound.Pause(key, h.clock.Now())
		return paused
	}
	h.telling = &teller{books: h.books, waits: h.waits, statuses: in.Statuses, metrics: h.metrics, clock: h.clock}
	if h.telling.statuses == nil {
		h.telling.statuses = unsaid{}
	}
	if handle != nil {
		h.tolerations = snapshot.NewClassTolerations(handle.SharedInformerFactory().Scheduling().V1().PriorityClasses().Lister())
	}
	h.cluster = snapshot.NewCache(h.sources())
	h.refused.Follow(h.cluster.NodeChanged, h.lifted)
	h.runs = gang.NewRuns(h.Members, h.HasSynced, h.cluster.GroupChanged)
	return h
}

// follow has the informers tell the Hub of what comes, changes and goes.
func (h *Hub) follow(factory informers.SharedInformerFactory) error {
	toldOfPods, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    h.podAdded,
		UpdateFunc: h.podUpdated,
		DeleteFunc: h.podDeleted,
	})
	if err != nil {
		return err
	}
	toldOfFinished, err := h.watchFinished()
	if err != nil {
		return err
	}
	toldOfNodes, err := h.watchNodes(factory.Core().V1().Nodes().Informer())
	if err != nil {
		return err
	}
	classes := factory.Scheduling().V1().PriorityClasses().Informer()
	if err := h.watchTolerations(classes); err != nil {
		return err
	}
	toldOfTenants, err := h.watchTenants(factory.Core().V1().Namespaces().Informer(), classes)
	if err != nil {
		return err
	}
	h.told = slices.Concat(toldOfTenants, []cache.InformerSynced{toldOfPods.HasSynced, toldOfNodes.HasSynced, toldOfFinished})
	return nil
}

// WaitForSync waits until the hub has heard of all that there was when it began: before that, the books of the queues say
// that less runs than does, and groups lack the members that have finished. It reports false when ctx ends first, or the
// informers are never started.
func (h *Hub) WaitForSync(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), h.told...)
}

// HasSynced reports whether the hub has heard of all that there was when it began. Any goroutine may call it.
func (h *Hub) HasSynced() bool {
	return len(h.told) > 0 && !slices.ContainsFunc(h.told, func(told cache.InformerSynced) bool { return !told() })
}

// Runs says since when groups are whole.
func (h *Hub) Runs() *gang.Runs { return h.runs }

// isEvictingFor reports whether room is being made for a pod by itself.
func (h *Hub) isEvictingFor(pod *corev1.Pod) bool { return h.waits.Evicting(podKey(pod)) }

// backOff says for how long to hold a preemptor back after an eviction: not at all the first time that it fails, then
// longer and longer if it keeps failing (missing permissions, say). One that was not wanted any more has not failed.
func (h *Hub) backOff(pre *preemptor, outcome eviction.Outcome, retry configv1alpha1.RetryArgs) time.Duration {
	switch {
	case outcome.Err == nil:
		h.waits.Succeeded(pre.key)
		return 0
	case outcome.Unwanted || !h.remains(pre):
		// What is remembered of one that has left would never be forgotten.
		return 0
	}
	if outcome.Refused {
		// That does no harm, and another decision comes out otherwise.
		return retry.InitialBackoff.Duration
	}
	delay := h.waits.Failed(pre.key, admission.Backing{Initial: retry.InitialBackoff.Duration, Max: retry.MaxBackoff.Duration})
	if !h.remains(pre) {
		// It has left, and been forgotten, meanwhile.
		h.waits.Succeeded(pre.key)
		return 0
	}
	return delay
}

// wake has a workload try again at once, because something has changed for it. Below it, tryAgain leaves its backing off as
// it is, wakeGroup and wakeGang find the pods that are to go, and activate moves them.
func (h *Hub) wake(key workload.Key) {
	h.waits.Rouse(key)
	h.tryAgain(key)
}

// tryAgain has workloads try again; one whose turn came to nothing waits for another one first.
func (h *Hub) tryAgain(keys ...workload.Key) {
	for _, key := range keys {
		if key.Gang {
			h.wakeGroup(nameOf(key))
		} else if pod, ok := h.podOf(key); ok {
			h.activate(pod)
		}
	}
}

// ended wakes the workloads that waited for something which has ended.
func (h *Hub) ended(c admission.Cause) {
	for _, key := range h.waits.End(c) {
		logOf(context.Background(), key).V(6).Info("What it waited for has ended", "cause", c)
		h.wake(key)
	}
}

// eased wakes the workloads that wait for the limit of one of some queues, which have less than they had. Work that ends elsewhere is no
// reason to try all that is at some limit.
func (h *Hub) eased(limited []string) {
	if len(limited) == 0 {
		return
	}
	ended := h.waits.EndFor(admission.Queue, func(key workload.Key) bool {
		name, ok := h.queueOfWork(key)
		return !ok || slices.ContainsFunc(h.board.LimitsOn(name), func(name string) bool { return slices.Contains(limited, name) })
	})
	for _, key := range ended {
		logOf(context.Background(), key).V(6).Info("The queue at whose limit it was has less", "queues", limited)
		h.wake(key)
	}
}

// wakeGroup lets the members of a group try again: those of a gang by one of them.
func (h *Hub) wakeGroup(key types.NamespacedName) {
	if g, ok := h.groups.Group(key); ok && !g.IsGang() {
		h.activate(h.lister.Members(key).Pending...)
		return
	}
	h.wakeGang(key)
}

// wakeGang lets one member come forward to plan for the gang: its leader, or the oldest that can lead. Where enough are
// through, because fewer are needed or some stay after all, the members go on that wait at Permit.
func (h *Hub) wakeGang(key types.NamespacedName) {
	members := h.members(key)
	h.letGo(key, &members)
	if pod := h.spokesman(key, &members); pod != nil {
		h.activate(pod)
		return
	}
	// Other plugins hold all of them back, and it is for these to hear of the events that end it.
	h.activate(slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool { return members.Reserved.Has(pod.UID) })...)
}

// letGo has the members of a gang go on that wait at Permit, if those are through that it needs.
func (h *Hub) letGo(key types.NamespacedName, members *gang.Members) {
	if g, ok := h.groups.Group(key); ok && g.IsGang() && members.Reserved.Len() > 0 && h.through(members) >= g.MinCount && !h.registry.Lacks(key) {
		h.allow(key)
	}
}

// wakeNext lets the planned member come forward that goes next.
func (h *Hub) wakeNext(key types.NamespacedName) {
	next := h.registry.Next(key)
	if next == "" {
		return
	}
	member, _ := h.records.Seated(string(next))
	pod, ok := h.podOf(member)
	switch {
	case !ok || !h.awaitsPlace(pod):
	case h.entersQueue(pod):
		h.activate(pod)
	default:
		// Those after it would wait for it, and others for their room.
		h.release(key, nil, "another plugin holds member "+pod.Name+" back")
	}
}

// spokesman is the member that goes next by the gang's plan, or that plans for the gang, or is to do so next; nil if none
// can.
func (h *Hub) spokesman(key types.NamespacedName, members *gang.Members) *corev1.Pod {
	leader := cmp.Or(h.registry.Next(key), h.registry.Leader(key))
	gang.SortByAge(members.Pending)
	var oldest *corev1.Pod
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) || !h.entersQueue(pod) {
			continue
		}
		if pod.UID == leader {
			return pod
		}
		if oldest == nil {
			oldest = pod
		}
	}
	return oldest
}

// entersQueue reports whether nothing but the gate keeps a pod out of the queue. One that is kept out could not plan for its gang.
func (h *Hub) entersQueue(pod *corev1.Pod) bool { return h.keptOut(pod) == "" }

// keptOut says which other PreEnqueue plugin holds a pod back, and why, or what else is against it; "" for one that may come.
func (h *Hub) keptOut(pod *corev1.Pod) string {
	for _, pl := range h.profiles.preEnqueue(pod.Spec.SchedulerName) {
		if pl.Name() == GateName {
			continue
		}
		if status := pl.PreEnqueue(context.Background(), pod); !status.IsSuccess() {
			return fmt.Sprintf("plugin %s holds it back: %s", pl.Name(), status.Message())
		}
	}
	return gang.Outranked(h.derived, h.groups, pod).Message
}

// wakeSoon is wakeGang for changes that come in numbers: a gang's members while they are being created. It
// may be called under the queue's lock.
func (h *Hub) wakeSoon(key types.NamespacedName) {
	h.waits.Gather(gangKey(key), h.clock.Now().Add(h.settleTime(key)))
}

// activate moves pods to the active queue. It must not be called from PreEnqueue or a queueing hint, which
// run under the queue's lock.
func (h *Hub) activate(pods ...*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	byName := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		byName[pod.Namespace+"/"+pod.Name] = pod
	}
	h.handle.Activate(klog.Background(), byName)
}
