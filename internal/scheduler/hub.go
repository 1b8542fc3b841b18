package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Hub is what the plugins of all profiles in one scheduler share. Make one for each process, with [NewHub].
type Hub struct {
	groups   gang.Source
	registry *gang.Registry
	evictor  Evictor

	profiles profiles
	// mirror is the core's picture of the cluster.
	mirror *mirror
	clock  clock.PassiveClock
	// tolerations are those of PriorityClasses; timers wake those whom protections keep out.
	tolerations tolerations
	timers      *timers
	// nominees knows for which nodes others have nominated pods.
	nominees nominees
	// seats is the room that is kept for pods that have been planned or nominated.
	seats seatMap
	// awaited are the pods that have to go before a placement is free.
	awaited departures
	// leaving are the pods that are going to go, though they do not say so themselves.
	leaving leavingPods
	// assumed are the pods that may still be turned back.
	assumed assumedPods
	// overstated are nominations that the framework takes for more than they are.
	overstated overstatedPods
	metrics    *metrics.Metrics
	// board has the books of the queues, and turns holds their work back.
	board *queue.Board
	turns *turns

	// schedulingGroups is true where pods name their PodGroup in spec.schedulingGroup as well.
	schedulingGroups bool

	// told report whether the hub has heard of all pods, and of all nodes, that there were at the start.
	told []cache.InformerSynced
	// lister, pods and handle are set when the first profile is built. Waiting pods, nominations and the queue
	// are the same for the handles of all profiles.
	lister *gang.Lister
	pods   corelisters.PodLister
	handle framework.Framework

	rejecting sync.Mutex
	// rejected are the members that were turned away at Permit and have not released their place yet.
	rejected sets.Set[types.UID]

	mu sync.Mutex
	// evicting holds the single pods for which room is being made, and evictions the last eviction of every gang for
	// which it is.
	evicting  sets.Set[types.UID]
	evictions map[types.NamespacedName]*eviction
	// refused are pods that found no room while seats were kept for others.
	refused map[types.UID]*corev1.Pod
	// failures counts evictions that have failed in a row, by preemptor.
	failures map[owner]int
	// atLimit are preemptors that a queue keeps waiting: by its limit, or because they cannot be in it.
	atLimit sets.Set[owner]
	// soon holds the gangs that are to be looked at again in a moment.
	soon sets.Set[types.NamespacedName]
}

// NewHub returns a Hub that finds PodGroups in groups, keeps the standing of gangs in registry and has
// victims removed by evictor.
func NewHub(groups gang.Source, registry *gang.Registry, evictor Evictor) *Hub {
	h := &Hub{
		clock:    clock.RealClock{},
		metrics:  metrics.New(),
		groups:   groups,
		registry: registry,
		evictor:  evictor,
		rejected: sets.New[types.UID](),
		evicting: sets.New[types.UID](),
		refused:  make(map[types.UID]*corev1.Pod),
		failures: make(map[owner]int),
		soon:     sets.New[types.NamespacedName](),
		board:    queue.NewBoard(),
		turns:    newTurns(),
		atLimit:  sets.New[owner](),

		evictions: make(map[types.NamespacedName]*eviction),
	}
	h.mirror = newMirror(facts{
		memberOf: h.groupOf, groupOf: h.coreGroup, isLeaving: h.isLeaving, tolerates: h.tolerations.ofPod, queueOf: h.queueOf,
		standing: func(names []string) *queue.Standing { return h.board.Standing(names) },
	})
	h.timers = newTimers(clock.RealClock{}, h.wake)
	return h
}

// Measure has preemptions measured. It must be called before the first profile is built.
func (h *Hub) Measure(m *metrics.Metrics) { h.metrics = m }

// FollowSchedulingGroups has the hub follow pods that name their PodGroup in spec.schedulingGroup even when they
// have finished, which takes an informer of all that have. It must be called before the first profile is built.
func (h *Hub) FollowSchedulingGroups() { h.schedulingGroups = true }

// Factory makes the plugin for a profile; register it under [Name].
func (h *Hub) Factory() frameworkruntime.PluginFactory { return h.newPlugin }

// attach hooks the hub into the informers that all profiles share, once.
func (h *Hub) attach(ctx context.Context, handle framework.Framework) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lister != nil {
		return nil
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods()
	if err := gang.AddIndex(pods.Informer()); err != nil {
		return err
	}
	told, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    h.podAdded,
		UpdateFunc: h.podUpdated,
		DeleteFunc: h.podDeleted,
	})
	if err != nil {
		return err
	}
	finished, err := h.watchFinished(ctx, handle)
	if err != nil {
		return err
	}
	classes := handle.SharedInformerFactory().Scheduling().V1().PriorityClasses()
	h.tolerations.classes = classes.Lister()
	if err := h.watchTolerations(classes.Informer()); err != nil {
		return err
	}
	toldOfNodes, err := h.watchNodes(handle)
	if err != nil {
		return err
	}
	h.told = []cache.InformerSynced{told.HasSynced, toldOfNodes.HasSynced}
	h.lister = gang.NewLister(pods.Informer().GetIndexer(), finished)
	h.pods = pods.Lister()
	h.handle = handle
	go h.takeTurns(ctx)
	return nil
}

// WaitForSync waits until the hub has heard of all that there was when it began: before that, the books of the queues say
// that less runs than does. It reports false when ctx ends first. It must be called once the informers have been started.
func (h *Hub) WaitForSync(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), h.told...)
}

// Members lists the members of a group. It must not be called before the profiles are built; where none of
// them has the plugin there are none.
func (h *Hub) Members(key types.NamespacedName) gang.Members {
	if h.lister == nil {
		return gang.Members{}
	}
	return h.lister.Members(key)
}

// eviction is one that is under way; its address tells it from others.
type eviction struct{ of types.UID }

// startEviction gates a preemptor while room is made for it, until the function that it returns is called.
func (h *Hub) startEviction(o owner, uid types.UID) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !o.gang {
		h.evicting.Insert(uid)
		return func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.evicting.Delete(uid)
		}
	}
	e := &eviction{of: uid}
	h.evictions[o.NamespacedName] = e
	h.registry.StartEviction(o.NamespacedName)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		// All members may have gone since, and others have come, for which another one is under way.
		if h.evictions[o.NamespacedName] == e {
			delete(h.evictions, o.NamespacedName)
			h.registry.EndEviction(o.NamespacedName)
		}
	}
}

// isEvicting reports whether calls that make room for an owner are under way.
func (h *Hub) isEvicting(o owner) bool {
	if o.gang {
		return h.registry.Evicting(o.NamespacedName)
	}
	pod, err := h.pods.Pods(o.Namespace).Get(o.Name)
	return err == nil && h.isEvictingFor(pod.UID)
}

func (h *Hub) isEvictingFor(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.evicting.Has(uid)
}

// retryDelay says when to try again after an eviction: at once the first time that it fails, later and later
// if it keeps failing (missing permissions, say). One that was not wanted any more has not failed.
func (h *Hub) retryDelay(pre *preemptor, err error, unwanted bool, retry configv1alpha1.RetryArgs) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := pre.owner
	switch {
	case err == nil:
		delete(h.failures, o)
		return 0
	case unwanted || !h.remains(pre):
		// Of one that has left, nothing would be forgotten any more.
		return 0
	}
	h.failures[o]++
	if h.failures[o] == 1 {
		return 0
	}
	// Doubling stops short of overflow; the longest delay is a day at most.
	return min(retry.InitialBackoff.Duration<<min(h.failures[o]-2, 20), retry.MaxBackoff.Duration)
}

// remains reports whether a preemptor, or a part of it, still waits for a place. Another one may have its name by now.
func (h *Hub) remains(pre *preemptor) bool { return slices.ContainsFunc(pre.pods, h.awaitsPlace) }

// awaitsPlace reports whether a pod is there and has no node, as far as the informer knows: whoever says no has been, or
// is being, forgotten.
func (h *Hub) awaitsPlace(pod *corev1.Pod) bool {
	now, err := h.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID && now.Spec.NodeName == "" && now.DeletionTimestamp == nil
}

// keep keeps exactly these seats for an owner, and wakes those whom the ones that it gives up were kept from.
func (h *Hub) keep(o owner, seats []*seat) {
	if h.seats.replace(o, seats) {
		h.wakeRefused()
	}
}

// refuse remembers a pod that found no room while seats were kept for others; freed is the count of
// given-up seats when it looked.
func (h *Hub) refuse(pod *corev1.Pod, freed uint64) {
	h.mu.Lock()
	h.refused[pod.UID] = pod
	h.mu.Unlock()
	if h.seats.freed.Load() != freed {
		h.wakeRefused()
	}
}

// wakeRefused lets everyone try again who found no room because of seats.
func (h *Hub) wakeRefused() {
	h.mu.Lock()
	pods := make([]*corev1.Pod, 0, len(h.refused))
	for _, pod := range h.refused {
		pods = append(pods, pod)
	}
	clear(h.refused)
	h.mu.Unlock()
	h.activate(pods...)
	// Room that was promised counted for a queue.
	h.wakeLimited()
}

// wake lets a preemptor try again at once.
func (h *Hub) wake(o owner) {
	h.turns.rouse(o)
	if o.gang {
		h.wakeGang(o.NamespacedName)
		return
	}
	if pod, err := h.pods.Pods(o.Namespace).Get(o.Name); err == nil {
		h.activate(pod)
	}
}

// wakeGang lets one member come forward to plan for the gang: its leader, or the oldest that can lead. Where enough are
// through, because fewer are needed or some stay after all, those go on who wait at Permit.
func (h *Hub) wakeGang(key types.NamespacedName) {
	members := h.members(key)
	if g, ok := h.groups.Group(key); ok && g.IsGang() && len(h.registry.Reserved(key)) > 0 && h.through(key, &members) >= g.MinCount {
		h.allow(key)
	}
	if pod := h.spokesman(key, &members); pod != nil {
		h.activate(pod)
	}
}

// spokesman is the member that plans for the gang, or that is to do so next; nil if none can.
func (h *Hub) spokesman(key types.NamespacedName, members *gang.Members) *corev1.Pod {
	leader := h.registry.Leader(key)
	reserved := sets.New(h.registry.Reserved(key)...)
	gang.SortByAge(members.Pending)
	var oldest *corev1.Pod
	for _, pod := range members.Pending {
		if reserved.Has(pod.UID) || !h.entersQueue(pod) {
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

// entersQueue reports whether the other PreEnqueue plugins let a pod through. One that they hold back could
// not plan for its gang.
func (h *Hub) entersQueue(pod *corev1.Pod) bool {
	for _, pl := range h.handle.PreEnqueuePlugins() {
		if pl.Name() != Name && !pl.PreEnqueue(context.Background(), pod).IsSuccess() {
			return false
		}
	}
	return true
}

// wakeSoon is wakeGang for changes that come in numbers: a gang's members while they are being created. It
// may be called under the queue's lock.
func (h *Hub) wakeSoon(key types.NamespacedName) {
	settle := h.settleTime(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.soon.Has(key) {
		return
	}
	h.soon.Insert(key)
	time.AfterFunc(settle, func() {
		h.mu.Lock()
		h.soon.Delete(key)
		h.mu.Unlock()
		h.wakeGang(key)
	})
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
