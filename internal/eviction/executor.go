package eviction

import (
	"context"
	"errors"
	"fmt"
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

// Executor carries orders out. Its goroutines end when their order is over or the context of New is done; Wait waits for
// all of them. It is safe for concurrent use.
type Executor struct {
	ctx      context.Context
	intents  intents
	members  gang.Membership
	remover  remover
	statuses *podstatus.Writer
	ledger   *ledger
	events   preemptionEvents
	pace     *rate.Limiter
	clock    clock.PassiveClock
	metrics  *metrics.Metrics
	// groupDone is called with each group that an execution has finished with.
	groupDone func(types.NamespacedName)
	running   sync.WaitGroup
}

// New returns an Executor that deletes pods with pods, marks PodGroups with groups, which must read from the
// API server, nominates with statuses, and makes events on both sides with recorder. No call is made after ctx is done.
func New(
	ctx context.Context, pods kubernetes.Interface, groups client.Client, statuses *podstatus.Writer,
	recorder events.EventRecorder, clk clock.PassiveClock, options ...Option,
) *Executor {
	e := &Executor{
		ctx:       ctx,
		intents:   intents{client: groups, clock: clk},
		members:   gang.Named{},
		remover:   remover{pods: pods, clock: clk, refusals: NewRefusals(clk)},
		statuses:  statuses,
		ledger:    &ledger{clock: clk},
		events:    preemptionEvents{recorder: recorder},
		pace:      rate.NewLimiter(eventRate, eventBurst),
		clock:     clk,
		metrics:   metrics.New(),
		groupDone: func(types.NamespacedName) {},
	}
	for _, option := range options {
		option(e)
	}
	e.intents.again = e.metrics.PreemptedAgain
	return e
}

// Wait returns when no order is being carried out any more, and no nomination being written.
func (e *Executor) Wait() { e.running.Wait() }

// Nominate writes nominations, off the caller's goroutine, and goes on when the caller's context, which is that of a cycle, has ended.
// A write that fails is tried again later.
func (e *Executor) Nominate(ctx context.Context, nominations []podstatus.Nomination) {
	claims := e.statuses.Nominate(nominations)
	if len(claims) == 0 {
		return
	}
	e.running.Go(func() {
		ctx, cancel := e.bind(context.WithoutCancel(ctx))
		defer cancel()
		// No claim is an error, so none is left.
		_, _ = each(claims, func(c podstatus.Claim) error {
			if err := e.statuses.Write(ctx, c); err != nil && !apierrors.IsNotFound(err) {
				klog.FromContext(ctx).V(2).Info("Left a nomination as it is in the API for now", "pod", klog.KObj(c.Pod), "reason", err)
			}
			return nil
		})
	})
}

// Evict carries an order out, off the caller's goroutine, and asks the scheduler while it does so. It takes note of the
// nominations before it returns, so that what is said later of the same pods wins. The channel gets exactly one value;
// it need not be received.
func (e *Executor) Evict(ctx context.Context, order Order, sched Scheduler) <-chan Outcome {
	claims := e.statuses.Nominate(order.Nominations)
	outcomes := make(chan Outcome, 1)
	e.running.Go(func() {
		ctx, cancel := e.bind(ctx)
		defer cancel()
		p := &order.Decision.Preemptor
		ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("preemptor", klog.KRef(p.Namespace, p.Name), "profile", order.Profile))
		start := e.clock.Now()
		outcome := newExecution(e, &order, sched, claims).run(ctx)
		e.finished(ctx, &order, outcome, e.clock.Since(start))
		outcomes <- outcome
	})
	return outcomes
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

// finished says how an execution ended.
func (e *Executor) finished(ctx context.Context, order *Order, outcome Outcome, took time.Duration) {
	err, taken := outcome.Err, len(order.Victims)
	if err != nil {
		taken = outcome.Begun.Len()
	}
	if taken > 0 {
		e.metrics.Took(taken, order.Profile)
	}
	result := metrics.Success
	logger := klog.FromContext(ctx)
	switch {
	case err == nil:
		logger.V(2).Info("Finished a preemption", "victims", len(order.Victims), "took", took)
		e.events.by(order.Profile).success(&order.Decision)
	case errors.Is(err, ErrOutdated):
		result = metrics.Abandoned
		logger.V(2).Info("Gave a preemption up", "victims", len(order.Victims))
		logger.V(4).Info("Why a preemption was given up", "reason", err)
	default:
		result = metrics.Failure
		if e.ctx.Err() != nil {
			logger.V(2).Info("Left a preemption to the next leader", "victims", len(order.Victims))
			logger.V(4).Info("Why a preemption was left to the next leader", "reason", err)
		} else {
			logger.Error(err, "Preemption failed", "victims", len(order.Victims))
		}
		e.events.by(order.Profile).failure(&order.Decision, err)
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
