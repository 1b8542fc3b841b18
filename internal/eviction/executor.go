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
	// maxParallel is the maximum number of concurrent API calls of one eviction.
	maxParallel = 32
	// withdrawTimeout is the maximum time that an execution spends on withdrawing intents after a
	// failure. The Finisher withdraws the remaining intents.
	withdrawTimeout = 5 * time.Second
	// eventRate is the maximum number of victims per second whose events are recorded, after the
	// first eventBurst victims. Without a limit, the events of a large gang's victims would be
	// written while the preemptor is bound.
	eventRate, eventBurst = 100, 50
)

// Executor carries out orders in goroutines. A goroutine ends when its order is complete, or when
// the context of New ends. Wait waits for all of them. The Executor is safe for concurrent use.
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
	// groupDone is called with each group after an execution has finished its work on the group.
	groupDone func(types.NamespacedName)
	running   sync.WaitGroup
}

// New returns an Executor. The client pods deletes pods. The client groups marks PodGroups, and
// must read from the API server and not from a cache. statuses writes nominations, and recorder
// records events. The Executor makes no call after ctx has ended.
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

// Wait returns when all orders are complete and all nominations are written.
func (e *Executor) Wait() { e.running.Wait() }

// Nominate writes nominations in another goroutine. ctx is only for log lines: the writes continue
// after the scheduling cycle and its context have ended. A write that fails is retried later.
func (e *Executor) Nominate(ctx context.Context, nominations []podstatus.Nomination) {
	claims := e.statuses.Nominate(nominations)
	if len(claims) == 0 {
		return
	}
	e.running.Go(func() {
		ctx, cancel := e.bind(context.WithoutCancel(ctx))
		defer cancel()
		// The result of each is always nil here, because the function returns no error.
		_, _ = each(claims, func(c podstatus.Claim) error {
			if err := e.statuses.Write(ctx, c); err != nil && !apierrors.IsNotFound(err) {
				klog.FromContext(ctx).V(2).Info("Left a nomination as it is in the API for now", "pod", klog.KObj(c.Pod), "reason", err)
			}
			return nil
		})
	})
}

// Evict carries out an order in another goroutine, and asks sched questions during the eviction.
// Before it returns, it registers the nominations, so that later nominations of the same pods
// replace them. The channel receives exactly one Outcome. The caller may ignore it.
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

// finished records the end of an execution in metrics, log lines and events.
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

// each calls do for the items in order, at most maxParallel at a time. After the first failure it
// begins no further call. left has the items that were not passed to do, and err is the first
// error.
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
