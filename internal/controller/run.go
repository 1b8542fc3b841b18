package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/composite"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/runs"
)

// Inputs holds the dependencies of the controllers.
type Inputs struct {
	// Client reads the types of reprieve.dev from Cache and writes to the API server.
	Client client.Client
	// QueueClient is like Client, for the status of Queues. It is separate because hundreds of
	// Queues may change within a second.
	QueueClient client.Client
	// Native is the kind of the PodGroups of scheduling.k8s.io; nil if Reprieve ignores them.
	Native *schema.GroupVersionKind
	// Profiles are the names of the scheduler's profiles. The controllers write the status of a
	// native PodGroup only if its members name one of them.
	Profiles sets.Set[string]
	// Workloads is the kind of the Workloads of scheduling.k8s.io whose groups need PodGroups; nil
	// for none.
	Workloads *schema.GroupVersionKind
	// Source finds groups of both APIs, reprieve.dev and scheduling.k8s.io.
	Source gang.Source
	// Trees has the trees of CompositePodGroups; nil if there are none. Source has the groups of
	// trees too.
	Trees *gang.Trees
	// Composites is true if the cluster serves CompositePodGroups and Reprieve may read them.
	Composites bool
	// Derived describes the groups of pods without a PodGroup; nil if no groups are derived.
	Derived Derived
	// DerivedChanged requests derived groups that change; nil if no groups are derived.
	DerivedChanged *Trigger
	// HoldChanged requests pods that become blocked, or stop being blocked, by a missing owner or
	// group.
	HoldChanged *Trigger
	// HeldPods receives a reason for a block, and the number of blocked pods that report this
	// reason. It may be called from any goroutine.
	HeldPods func(reason string, pods int)
	// SayOfPod writes a condition of a pod. It does not block.
	SayOfPod func(*corev1.Pod, corev1.PodCondition)
	// Cache holds PodGroups and Workloads. It must be running.
	Cache cache.Cache
	// Informers are the scheduler's informers, for Pods and PriorityClasses.
	Informers informers.SharedInformerFactory
	// Finished is a separate informer of finished members. It is nil if the informer of Pods
	// includes them.
	Finished toolscache.SharedIndexInformer
	// Members lists the Pods of a group.
	Members WaitingMembers
	// Gangs has the scheduler's verdicts on gangs.
	Gangs *engine.Gangs
	// Runs has the start times of groups.
	Runs *runs.Reader
	// Changed requests groups whose verdict in Gangs has changed.
	Changed *Trigger
	// Finisher completes interrupted preemptions of groups, and ends preemptions whose pods are
	// gone; nil for none.
	Finisher reconcile.Reconciler
	// Evicted requests each group after its eviction.
	Evicted *Trigger
	// MalformedTolerations receives the number of PriorityClasses that are missing or have an
	// unreadable toleration.
	MalformedTolerations func(int)
	// BadAnnotation receives the key of an annotation about lost work whose value has no effect,
	// once for all pods of an owner; nil for none.
	BadAnnotation func(key string)
	// Recorder writes events.
	Recorder events.EventRecorder
	// RecorderOf returns the recorder that writes events about the pods of a profile in the name of
	// that profile. It is nil if Recorder writes all events.
	RecorderOf func(profile string) events.EventRecorder
	Clock      clock.WithTicker
	// Ledger is the quota ledger.
	Ledger *queue.Ledger
	// Queues returns the effects of queues on a group.
	Queues Queues
	// OrphanedPods receives the number of orphaned pods: pods on nodes that name a queue but cannot
	// count for it.
	OrphanedPods func(int)
	// QueueFigures receives the status of all Queues by name, each time that a status changes; nil
	// for none.
	QueueFigures func(map[string]v1alpha1.QueueStatus)
	// QuotaMissing receives the missing quotas of all Queues by name, at the same times as
	// QueueFigures; nil for none.
	QuotaMissing func(map[string]corev1.ResourceList)
	// OldestGang receives the time when the oldest waiting gang began to wait for nodes, each time
	// that it changes. The time is zero if no gang waits. OldestGang may be nil.
	OldestGang func(since time.Time)
}

// Run runs all controllers until ctx is done or one of them fails.
func Run(ctx context.Context, in Inputs) error {
	status, err := newStatusController(in)
	if err != nil {
		return err
	}
	others, err := newResolveControllers(in)
	if err != nil {
		return err
	}
	tolerations, err := newTolerationController(in)
	if err != nil {
		return err
	}
	labels, err := newLabelController(in)
	if err != nil {
		return err
	}
	others = append(others, tolerations, labels)
	if in.Composites {
		composites, err := newCompositeController(in)
		if err != nil {
			return err
		}
		others = append(others, composites)
	}
	if in.Derived != nil {
		derive, err := newDeriveController(in)
		if err != nil {
			return err
		}
		others = append(others, derive)
	}
	if in.Derived != nil || in.Workloads != nil {
		held, err := newHeldController(in)
		if err != nil {
			return err
		}
		others = append(others, held)
	}
	if in.Workloads != nil {
		made, err := newWorkloadController(in)
		if err != nil {
			return err
		}
		others = append(others, made)
	}
	if in.Finisher != nil {
		finish, err := newFinishController(in)
		if err != nil {
			return err
		}
		others = append(others, finish)
	}
	// Start the informers that no profile has requested yet.
	in.Informers.Start(ctx.Done())
	in.Informers.WaitForCacheSync(ctx.Done())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return status.Start(ctx) })
	g.Go(func() error { return NewQueueStatus(&in).Start(ctx) })
	for _, c := range others {
		g.Go(func() error { return c.Start(ctx) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

// optionsFor returns the options of a controller. A failed request is retried after first, and then
// with growing delays up to longestDelay. The delays are limited because no event tells a
// controller that the cause of a failure is gone.
func optionsFor(r reconcile.Reconciler, first time.Duration) controller.Options {
	return controller.Options{
		Reconciler:  r,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, longestDelay),
		NewQueue:    newFairQueue,
		// Allow several controllers with one name, because several leaders run in one process in
		// tests.
		SkipNameValidation: ptr.To(true),
	}
}

func newStatusController(in Inputs) (controller.Controller, error) {
	status := NewStatus(in.Groups(), in.Members, in.Source, in.Profiles, in.Gangs, in.Runs, in.Queues, in.Recorder, in.Clock)
	status.OldestTo(in.OldestGang)
	status.RecordAs(in.RecorderOf)
	status.GroupsOf(in.Trees)
	sources := slices.Concat(in.groupSources(), in.memberSources(gathered(in.groupOfPod)), []source.Source{in.Changed})
	sources = append(sources, &source.Informer{
		Informer: in.Informers.Scheduling().V1().PriorityClasses().Informer(), Handler: handler.EnqueueRequestsFromMapFunc(waiting{in.Client}.neverGroups),
	})
	if in.Derived != nil {
		status.DerivedFrom(in.Derived.Group)
		sources = append(sources, in.DerivedChanged)
	}
	c, err := controller.NewUnmanaged("podgroup-status", optionsFor(status, conflictDelay))
	if err != nil {
		return nil, fmt.Errorf("make controller podgroup-status: %w", err)
	}
	for _, src := range sources {
		if err := c.Watch(src); err != nil {
			return nil, fmt.Errorf("watch for podgroup-status: %w", err)
		}
	}
	return c, nil
}

// gatherDelay is the time during which changes of pods are collected before their group is
// reconciled.
const gatherDelay = 50 * time.Millisecond

// gathered returns a handler that delays the requests for a changed object by gatherDelay. Members
// change by the hundred, and each reconciliation counts all members of the group.
func gathered(requests handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	ask := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, obj := range objects {
			for _, request := range requests(ctx, obj) {
				q.AddAfter(request, gatherDelay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { ask(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { ask(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { ask(ctx, q, e.Object) },
	}
}

// membership returns the mapping from pods to groups.
func (in *Inputs) membership() gang.Membership {
	var of gang.Membership = gang.Named{}
	if in.Derived != nil {
		of = in.Derived
	}
	if in.Trees != nil {
		return in.Trees.Membership(of)
	}
	return of
}

// Groups returns a client that reads PodGroups of both APIs and CompositePodGroups from the cache,
// and writes them.
func (in *Inputs) Groups() client.Client {
	c := in.Client
	if in.Native != nil {
		c = native.NewClient(c, *in.Native)
	}
	if in.Composites {
		c = composite.NewClient(c)
	}
	return c
}

// memberSources returns sources of the pods that may be members, including finished pods.
func (in *Inputs) memberSources(tell handler.EventHandler) []source.Source {
	out := []source.Source{&source.Informer{Informer: in.Informers.Core().V1().Pods().Informer(), Handler: tell}}
	if in.Finished != nil {
		out = append(out, &source.Informer{Informer: in.Finished, Handler: tell})
	}
	return out
}

// groupSources returns sources of the PodGroups of both APIs.
func (in *Inputs) groupSources() []source.Source {
	out := []source.Source{
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
	}
	if in.Native != nil {
		out = append(out, source.Kind(in.Cache, native.NewObject(*in.Native), &handler.TypedEnqueueRequestForObject[*unstructured.Unstructured]{}))
	}
	if in.Composites {
		out = append(out, source.Kind(in.Cache, &v1alpha1.CompositePodGroup{}, handler.TypedEnqueueRequestsFromMapFunc(treeRequests)))
	}
	return out
}
