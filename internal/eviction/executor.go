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
	// maxParallel is the number of calls that one eviction makes at the same time.
	maxParallel = 32
	// withdrawTimeout bounds the time that a preemptor waits for intents to be withdrawn after a
	// failure. The Finisher withdraws the remaining ones.
	withdrawTimeout = 5 * time.Second
	// eventRate is the number of victims per second that get an event, after the first eventBurst.
	// Otherwise all events for a large gang's victims would be written while the gang is bound.
	eventRate, eventBurst = 100, 50
)

// Executor carries out orders. Its goroutines end when their order is complete or the context of
// New is done. Wait waits for all of them. It is safe for concurrent use.
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
	// groupDone is called with each group when an execution has finished its work on the group.
	groupDone func(types.NamespacedName)
	running   sync.WaitGroup
}

// New returns an Executor. It deletes pods with the client pods and marks PodGroups with the client
// groups, which must read from the API server. It nominates with statuses and records events for
// preemptors and victims with recorder. It makes no call after ctx is done.
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

// Wait returns when no order is carried out and no nomination is written any more.
func (e *Executor) Wait() { e.running.Wait() }

// Nominate writes nominations in another goroutine. The writes continue after the end of the
// caller's context, which belongs to a scheduling cycle. A failed write is tried again later.
func (e *Executor) Nominate(ctx context.Context, nominations []podstatus.Nomination) {
	claims := e.statuses.Nominate(nominations)
	if len(claims) == 0 {
		return
	}
	e.running.Go(func() {
		ctx, cancel := e.bind(context.WithoutCancel(ctx))
		defer cancel()
		// The function returns no error, so each claim is processed.
		_, _ = each(claims, func(c podstatus.Claim) error {
			if err := e.statuses.Write(ctx, c); err != nil && !apierrors.IsNotFound(err) {
				klog.FromContext(ctx).V(2).Info("Left a nomination as it is in the API for now", "pod", klog.KObj(c.Pod), "reason", err)
			}
			return nil
		})
	})
}

// Evict carries out an order in another goroutine and calls sched during the eviction. It records
// the nominations before it returns, so that later nominations of the same pods win. The channel
// receives exactly one value. The caller need not receive it.
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

// bind returns a context that also ends when the Executor's context ends.
func (e *Executor) bind(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// finished records the end of an execution in metrics, logs and events.
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

// each calls do for all items in order, up to maxParallel at a time, until a call fails. It returns
// the items without a call, and the first error.
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
