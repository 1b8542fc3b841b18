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
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Inputs are what the controllers work with.
type Inputs struct {
	// Client reads the types of reprieve.dev from Cache and writes to the API server.
	Client client.Client
	// QueueClient does the same for the status of Queues, of which hundreds may change within a second.
	QueueClient client.Client
	// Native is the kind of the PodGroups of scheduling.k8s.io; nil where they are left alone. Their status is
	// kept for those whose members name one of Profiles.
	Native   *schema.GroupVersionKind
	Profiles sets.Set[string]
	// Workloads is the kind of the Workloads of scheduling.k8s.io for whose groups PodGroups are made; nil for none.
	Workloads *schema.GroupVersionKind
	// Source finds groups, of both APIs.
	Source gang.Source
	// Derived knows the groups that are made for pods which name none, and DerivedChanged is told of those that change; nil
	// where none are. HoldChanged is told of pods that are held back for want of what they belong to, or not any more.
	Derived        Derived
	DerivedChanged *Trigger
	HoldChanged    *Trigger
	// HeldPods is told how many pods are held back for a reason, of those that have been told why. Any goroutine may call it.
	HeldPods func(reason string, pods int)
	// SayOfPod writes a condition of a pod. It does not block.
	SayOfPod func(*corev1.Pod, corev1.PodCondition)
	// Cache holds PodGroups and Workloads. It must be running.
	Cache cache.Cache
	// Informers are the scheduler's; Pods and PriorityClasses are read from there.
	Informers informers.SharedInformerFactory
	// Finished is the informer of members that have finished, which that of Pods leaves out; nil where it leaves out none.
	Finished toolscache.SharedIndexInformer
	// Members knows the Pods of a group.
	Members WaitingMembers
	// Registry says what the scheduler thinks of a gang; Changed is told when that changes.
	Registry *gang.Registry
	// Runs says since when groups are whole.
	Runs    *gang.Runs
	Changed *Trigger
	// Finisher finishes preemptions of groups that have begun, and ends them when they are over; nil for none.
	// Evicted is told of every group that an eviction has done with.
	Finisher reconcile.Reconciler
	Evicted  *Trigger
	// MalformedTolerations is told how many PriorityClasses have a toleration that cannot be read, or are missing.
	MalformedTolerations func(int)
	// Recorder writes events.
	Recorder events.EventRecorder
	// RecorderOf writes those about pods, in the name of the profile that the pods are for; nil for Recorder.
	RecorderOf func(profile string) events.EventRecorder
	Clock      clock.WithTicker
	// Board has the books of the queues, Queues says what follows for a group, and OrphanedPods is told how many
	// pods on a node name a queue that cannot have them.
	Board        *queue.Board
	Queues       Queues
	OrphanedPods func(int)
	// QueueFigures is told how all Queues stand, by name, when that has changed; nil for none.
	QueueFigures func(map[string]v1alpha1.QueueStatus)
	// QuotaMissing is told what all Queues lack of their quotas, by name, at the same times; nil
	// for none.
	QuotaMissing func(map[string]corev1.ResourceList)
	// OldestGang is told since when the oldest gang has waited for nodes, zero for none, when that
	// has changed; nil for none.
	OldestGang func(since time.Time)
}

// Run runs all controllers until ctx is done, or one of them fails.
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
	// No profile may have asked for what the controllers read.
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

// optionsFor are those of every controller. What has failed is tried again after the first delay, and then later and later, but never
// later than longestDelay: nothing else may tell that the cause has been mended.
func optionsFor(r reconcile.Reconciler, first time.Duration) controller.Options {
	return controller.Options{
		Reconciler:  r,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, longestDelay),
		// One process holds one leader; tests run several.
		SkipNameValidation: ptr.To(true),
	}
}

func newStatusController(in Inputs) (controller.Controller, error) {
	status := NewStatus(in.Groups(), in.Members, in.Source, in.Profiles, in.Registry, in.Runs, in.Queues, in.Recorder, in.Clock)
	status.OldestTo(in.OldestGang)
	status.RecordAs(in.RecorderOf)
	sources := slices.Concat(in.groupSources(), in.memberSources(gathered(in.groupOfPod)), []source.Source{in.Changed})
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

// gatherDelay is for how long changes of pods are gathered before a group is looked at.
const gatherDelay = 50 * time.Millisecond

// gathered asks for what objects map to a moment after they change: members change by the hundred, and each look at their group
// counts them all.
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

// membership says which group a pod belongs to.
func (in *Inputs) membership() gang.Membership {
	if in.Derived == nil {
		return gang.Named{}
	}
	return in.Derived
}

// Groups reads from the cache, and writes, PodGroups of both APIs.
func (in *Inputs) Groups() client.Client {
	if in.Native == nil {
		return in.Client
	}
	return native.NewClient(in.Client, *in.Native)
}

// memberSources tell of the pods that count as members: those that have finished do too.
func (in *Inputs) memberSources(tell handler.EventHandler) []source.Source {
	out := []source.Source{&source.Informer{Informer: in.Informers.Core().V1().Pods().Informer(), Handler: tell}}
	if in.Finished != nil {
		out = append(out, &source.Informer{Informer: in.Finished, Handler: tell})
	}
	return out
}

// groupSources tell of the PodGroups of both APIs.
func (in *Inputs) groupSources() []source.Source {
	out := []source.Source{
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
	}
	if in.Native != nil {
		out = append(out, source.Kind(in.Cache, native.NewObject(*in.Native), &handler.TypedEnqueueRequestForObject[*unstructured.Unstructured]{}))
	}
	return out
}
