package eviction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

const (
	// maxParallel bounds how many calls of one eviction are under way at the same time.
	maxParallel = 32
	// takeBackTimeout bounds how long a preemptor waits for what is taken back after a failure. The Finisher
	// goes on with what is left.
	takeBackTimeout = 5 * time.Second
	// eventRate is how many victims a second are told that they go, once the first eventBurst have been. The events of
	// a large gang's victims would otherwise all be written while its members are being bound.
	eventRate, eventBurst = 100, 50
)

// Executor removes victims. Its goroutines end when their eviction is over or the context of New is done;
// Wait waits for all of them. It is safe for concurrent use.
type Executor struct {
	ctx      context.Context
	intents  intents
	remover  remover
	statuses *podstatus.Writer
	ledger   *ledger
	teller   teller
	pace     *rate.Limiter
	clock    clock.PassiveClock
	metrics  *metrics.Metrics
	over     func(types.NamespacedName)
	running  sync.WaitGroup
}

var _ scheduler.Evictor = (*Executor)(nil)

// New returns an Executor that deletes pods with pods, marks PodGroups with groups, which must read from the
// API server, nominates with statuses, and tells both sides with recorder. No call is made after ctx is done.
func New(ctx context.Context, pods kubernetes.Interface, groups client.Client, statuses *podstatus.Writer, recorder events.EventRecorder, clk clock.PassiveClock) *Executor {
	return &Executor{
		ctx:      ctx,
		intents:  intents{client: groups, clock: clk},
		remover:  remover{pods: pods, clock: clk},
		statuses: statuses,
		ledger:   &ledger{clock: clk},
		teller:   teller{recorder: recorder},
		pace:     rate.NewLimiter(eventRate, eventBurst),
		clock:    clk,
		metrics:  metrics.New(),
		over:     func(types.NamespacedName) {},
	}
}

// Measure has evictions measured. It must be called before the first of them.
func (e *Executor) Measure(m *metrics.Metrics) { e.metrics = m }

// RecordAs has what an eviction is about told in the name of the preemptor's profile. What an earlier process has begun,
// nobody knows the profile of. It must be called before the first eviction.
func (e *Executor) RecordAs(of func(profile string) events.EventRecorder) { e.teller.of = of }

// FindGroups has events refer to each PodGroup in the API that it is of. It must be called before the first
// eviction.
func (e *Executor) FindGroups(groups gang.Source) { e.teller.groups = groups }

// OnEnd has a function told, by name, of every PodGroup that an eviction has done with, for the Finisher to
// look at. It must be called before the first eviction; the function must not block.
func (e *Executor) OnEnd(over func(types.NamespacedName)) { e.over = over }

// Wait returns when no eviction is running any more.
func (e *Executor) Wait() { e.running.Wait() }

// Nominate writes nominations, off the caller's goroutine. A write that fails is left to the next one about
// the same pod.
func (e *Executor) Nominate(ctx context.Context, nominations []scheduler.Nomination) {
	claims := e.statuses.Nominate(nominations)
	if len(claims) == 0 {
		return
	}
	e.running.Go(func() {
		ctx, cancel := e.bind(ctx)
		defer cancel()
		// No claim is an error, so none is left.
		_, _ = each(claims, func(c podstatus.Claim) error {
			if err := e.statuses.Write(ctx, c); err != nil && !apierrors.IsNotFound(err) {
				klog.FromContext(ctx).V(2).Info("Left a nomination as it is in the API", "err", err)
			}
			return nil
		})
	})
}

// Evict removes the victims of a decision, off the caller's goroutine. It calls done once.
func (e *Executor) Evict(ctx context.Context, order scheduler.EvictionOrder, done func(error)) {
	// From the caller's goroutine, so that what is said of the same pods later wins.
	claims := e.statuses.Nominate(order.Nominations)
	e.running.Go(func() {
		ctx, cancel := e.bind(ctx)
		defer cancel()
		start := e.clock.Now()
		e.metrics.Took(len(order.Victims), order.Profile)
		c := newCarrying(e, &order, claims)
		err := c.run(ctx)
		e.finished(ctx, &order, err, e.clock.Since(start))
		done(err)
	})
}

// bind ends a context with the Executor's.
func (e *Executor) bind(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// finished says how an eviction ended.
func (e *Executor) finished(ctx context.Context, order *scheduler.EvictionOrder, err error, took time.Duration) {
	result := metrics.Success
	logger := klog.FromContext(ctx)
	switch {
	case err == nil:
		e.teller.as(order.Profile).preemptor(&order.Decision)
	case errors.Is(err, scheduler.ErrOutdated):
		result = metrics.Abandoned
		logger.V(2).Info("Gave a preemption up", "preemptor", order.Decision.Preemptor.Key(), "reason", err)
	default:
		result = metrics.Failure
		logger.Error(err, "Preemption failed", "preemptor", order.Decision.Preemptor.Key())
		e.teller.as(order.Profile).failure(&order.Decision, err)
	}
	e.metrics.Ran(metrics.Preemption, result, order.Profile, took)
}

// each calls do for all items, several at a time and in their order, until one of them fails. It returns those
// that were not begun, and the first error.
func each[T any](items []T, do func(T) error) (left []T, err error) {
	var g errgroup.Group
	g.SetLimit(maxParallel)
	var failed atomic.Bool
	for i, item := range items {
		if failed.Load() {
			left = items[i:]
			break
		}
		g.Go(func() error {
			err := do(item)
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return left, g.Wait()
}

func podKey(pod *corev1.Pod) string { return fmt.Sprintf("%s/%s", pod.Namespace, pod.Name) }

// sortedNames are names for a message, at most a few of them.
func sortedNames(names []string) []string {
	const most = 5
	slices.Sort(names)
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("and %d more", n-most))
	}
	return names
}
