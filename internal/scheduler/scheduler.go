package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/dips"
	"github.com/reprieve-dev/reprieve/internal/drivers"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/pauses"
	"github.com/reprieve-dev/reprieve/internal/progress"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/reporter"
	"github.com/reprieve-dev/reprieve/internal/runs"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/victims"
)

// Scheduler connects the components that the plugins of all profiles share, and runs the main loop.
// [Plugins] creates it. The package documentation lists the components.
type Scheduler struct {
	// index finds pods, groups and nodes. placements adds the state of pods that the API server
	// does not show yet, and ledger adds queues and reservations.
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	// leaving holds the pods that will terminate although their objects do not show it yet.
	leaving *leaving.Pods
	// quotas is the quota ledger.
	quotas *queue.Ledger
	// dips holds the nodes that offer less for a short time.
	dips    *dips.Dips
	evictor Evictor
	// handle is the framework of the first profile. The frameworks of all profiles share the pods
	// at Permit, the nominations and the queue, so one is enough.
	handle framework.Framework
	// told has functions that report whether the informers' handlers have seen all objects that
	// existed at the start. These are pods, finished pods, nodes, namespaces and classes.
	told []cache.InformerSynced

	// cluster is the cached snapshot of the cluster, and sources answers its questions.
	cluster *snapshot.Cache
	sources *sources
	// tolerations are the tolerations of the cluster's PriorityClasses.
	tolerations *snapshot.ClassTolerations
	// engine holds the records of workloads. The next five fields are parts of it.
	engine   *engine.Engine
	gangs    *engine.Gangs
	records  *engine.Pods
	reserved *engine.Reservations
	waits    *engine.Waits
	turns    *admission.List
	// unbound records the preemptions whose preemptor was not bound.
	unbound *engine.Unbound
	// runs determines since when groups have enough running members.
	runs *runs.Reader
	// executions counts the orders under way.
	executions executions
	// wanted caches which orders are still wanted.
	wanted *wants
	// progress records the steps that must end soon.
	progress *progress.Steps
	// refused lists the pods that the API server refuses to delete.
	refused *eviction.Refusals

	// reporter reports to users why pods wait.
	reporter *reporter.Reporter
	// decisions records decisions.
	decisions DecisionLog
	// recorder records the inputs of decisions.
	recorder Recorder
	// finished is the informer for finished members of groups.
	finished cache.SharedIndexInformer

	clock   clock.WithTicker
	metrics *metrics.Metrics

	// The other fields are the components, in the order of their dependencies; see connect and the
	// package documentation.
	steps            *stepper
	retries          *retries
	releases         *releases
	drivers          *drivers.Bounds
	plenty           *plenty
	gates            *gates
	nominations      *nominations
	rooms            *rooms
	nodes            *nodeWatch
	departures       *departures
	pauses           *pauses.Pauses
	victimPriorities *victims.Priorities
	stale            *staleGangs
	lost             *lostMembers
	queues           *queueChanges
	recorded         *recordedWaits
	seals            *seals
	surplus          *surplus
	memberships      *memberships
	cycles           *cycles
	groupWatch       *groupWatch
	podWatch         *podWatch
}

// newScheduler creates the Scheduler that all profiles share. It follows pods, nodes and classes
// until ctx is done.
func newScheduler(ctx context.Context, in *Inputs, handle framework.Framework) (*Scheduler, error) {
	finished, startFinished := in.informerOfFinished(handle)
	r := cluster.NewIndex(in.sources())
	if err := r.ReadFrom(handle.SharedInformerFactory(), finished); err != nil {
		return nil, err
	}
	h := in.assemble(r, handle, finished)
	if err := h.follow(handle.SharedInformerFactory()); err != nil {
		return nil, err
	}
	startFinished(ctx)
	go func() {
		// The framework gets its queue only after its plugins are created. The informers start
		// after that, so the main loop can use the queue when they have synced.
		if h.WaitForSync(ctx) {
			h.run(ctx)
		}
	}()
	return h, nil
}

// sources returns the inputs of the cluster's index.
func (in *Inputs) sources() cluster.Sources {
	return cluster.Sources{Groups: in.Groups, Derived: in.Derived, Trees: in.Trees, Confined: in.Confined, Gate: GateName}
}

// assemble returns a Scheduler without any data. handle and finished may be nil for a Scheduler
// that follows changes and schedules nothing.
func (in *Inputs) assemble(r *cluster.Index, handle framework.Framework, finished cache.SharedIndexInformer) *Scheduler {
	e := in.Engine
	if e == nil {
		e = engine.New(nil)
	}
	h := &Scheduler{
		index: r, leaving: &leaving.Pods{}, quotas: queue.NewLedger(), dips: dips.New(),
		engine: e, gangs: e.Gangs, records: e.Pods, reserved: e.Reservations, waits: e.Waits, turns: e.Turns, unbound: e.Unbound,
		evictor: in.Evictor, handle: handle, finished: finished, metrics: in.Metrics, clock: in.Clock,
		decisions: in.Decisions, recorder: in.Recorder, refused: in.Refused,
		wanted: &wants{},
	}
	if h.recorder == nil {
		h.recorder = noRecorder{}
	}
	if h.metrics == nil {
		h.metrics = metrics.New()
	}
	if h.decisions == nil {
		h.decisions = noDecisionLog{}
	}
	if h.clock == nil {
		h.clock = clock.RealClock{}
	}
	h.placements = cluster.NewPlacements(r, e, h.leaving, h.clock)
	h.ledger = cluster.NewLedger(h.placements, e, h.quotas, h.dips)
	h.dips.ReadNodes(func(name string) (*corev1.Node, time.Time) {
		if h.index.Nodes == nil {
			return nil, time.Time{}
		}
		// The only error of a lister is that the node does not exist.
		node, _ := h.index.Nodes.Get(name)
		return node, h.clock.Now()
	})
	h.progress = progress.New(h.clock, h.metrics)
	if h.refused == nil {
		h.refused = eviction.NewRefusals(h.clock)
	}
	h.reporter = reporter.New(r, h.placements, h.ledger, e, in.Statuses, h.metrics, h.clock)
	if handle != nil {
		h.tolerations = snapshot.NewClassTolerations(handle.SharedInformerFactory().Scheduling().V1().PriorityClasses().Lister())
	}
	h.sources = &sources{
		records: h.records, quotas: h.quotas, tolerations: h.tolerations, refused: h.refused, handle: handle, clock: h.clock,
	}
	h.cluster = snapshot.NewCache(h.sources.all())
	h.runs = runs.NewReader(h.gangs, h.Members, r.Derived, h.HasSynced, h.cluster.GroupChanged)
	connect(h)
	h.refused.Follow(h.cluster.NodeChanged, h.retries.protectionEnded)
	return h
}

// follow registers the event handlers with the informers.
func (h *Scheduler) follow(factory informers.SharedInformerFactory) error {
	toldOfPods, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    h.podWatch.added,
		UpdateFunc: h.podWatch.updated,
		DeleteFunc: h.podWatch.deleted,
	})
	if err != nil {
		return err
	}
	toldOfFinished, err := h.podWatch.watchFinished()
	if err != nil {
		return err
	}
	toldOfNodes, err := h.nodes.watch(factory.Core().V1().Nodes().Informer())
	if err != nil {
		return err
	}
	if err := h.nodes.watchOffers(factory); err != nil {
		return err
	}
	classes := factory.Scheduling().V1().PriorityClasses().Informer()
	if err := h.queues.watchTolerations(classes); err != nil {
		return err
	}
	toldOfTenants, err := h.queues.watch(factory.Core().V1().Namespaces().Informer(), classes)
	if err != nil {
		return err
	}
	h.told = slices.Concat(toldOfTenants, []cache.InformerSynced{toldOfPods.HasSynced, toldOfNodes.HasSynced, toldOfFinished})
	return nil
}

// WaitForSync waits until the handlers have seen all objects that existed at the start. Before
// that, the quota ledger has too little usage, and groups lack their finished members. It returns
// false if ctx ends first, or if the informers are never started.
func (h *Scheduler) WaitForSync(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), h.told...)
}

// HasSynced reports whether the handlers have seen all objects that existed at the start. Any
// goroutine may call it.
func (h *Scheduler) HasSynced() bool {
	return len(h.told) > 0 && !slices.ContainsFunc(h.told, func(told cache.InformerSynced) bool { return !told() })
}

// Runs returns the Reader that determines since when groups have enough running members.
func (h *Scheduler) Runs() *runs.Reader { return h.runs }

func (gs *gates) isEvictingFor(pod *corev1.Pod) bool { return gs.waits.Evicting(podKey(pod)) }
