package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/victims"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// queueChanges follows Queues, and the namespaces and PriorityClasses that determine their use. The
// informers call it, and the main loop calls expire. [cluster.Ledger] holds the queues and answers
// questions about them. It is safe for concurrent use.
type queueChanges struct {
	index            *cluster.Index
	ledger           *cluster.Ledger
	quotas           *queue.Ledger
	cluster          *snapshot.Cache
	turns            *admission.List
	clock            clock.WithTicker
	metrics          *metrics.Metrics
	retries          *retries
	releases         *releases
	victimPriorities *victims.Priorities
}

// set records a Queue that was created or changed. The caller must not change the Queue afterwards.
// Any goroutine may call it.
func (qc *queueChanges) set(q *v1alpha1.Queue) {
	first, confining := qc.quotas.SetQueue(q)
	if first {
		all, err := qc.index.Pods.List(labels.Everything())
		if err != nil {
			klog.Background().Error(err, "List pods to charge them to their queues")
		}
		for _, pod := range all {
			qc.ledger.Recharge(pod)
		}
		qc.quotas.AllCharged()
		qc.cluster.Invalidate()
		qc.retryNamed(all)
	}
	if confining {
		qc.rechargeWaiting()
	}
	qc.changed()
}

// retryNamed retries the pending pods that name a queue. It is called for the first Queue: until
// then, the scheduler ordered all pods by priority alone.
func (qc *queueChanges) retryNamed(pods []*corev1.Pod) {
	keys := sets.New[workload.Key]()
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && qc.ledger.QueueOf(pod) != "" {
			keys.Insert(qc.index.KeyOf(pod))
		}
	}
	for key := range keys {
		qc.retries.Retry(key)
	}
}

// changed retries all workloads that a change of a queue may affect.
func (qc *queueChanges) changed() {
	qc.victimPriorities.Review()
	qc.releases.disallowed()
	qc.retries.ended(engine.Queue)
	qc.retries.ended(engine.Access)
	qc.retries.ended(engine.Protection)
}

// askQueue calls question, which checks the queue of a workload, and returns its verdict. If the
// verdict blocks the workload, the cause is added to the waiting list. If the cause ends during the
// call, askQueue calls question again, up to a few times. After that, the workload is retried a
// moment later.
func (gs *gates) askQueue(key workload.Key, c engine.Cause, question func() gang.Verdict) gang.Verdict {
	const most = 3
	for n := 1; ; n++ {
		mark := gs.waits.Mark()
		v := question()
		if v == (gang.Verdict{}) {
			gs.waits.Resolve(key, c)
			return v
		}
		if gs.waits.Wait(key, c, mark) {
			return v
		}
		if n == most {
			gs.waits.Gather(key, gs.clock.Now().Add(chargeDelay))
			return v
		}
	}
}

// chargeDelay is the delay before the retry of a preemptor whose requests the quota ledger did not
// have at its decision.
const chargeDelay = 200 * time.Millisecond

// atLimit makes the decision for a preemptor that the limit of its queue blocks. The preemptor may
// preempt less important work of that queue. If that does not help, atLimit returns the verdict
// without a decision. In that case, the preemptor also waits until protections of that work end.
func (p *Plugin) atLimit(ctx context.Context, pre preemptor, v gang.Verdict) (*cycleDecision, gang.Verdict, error) {
	if v.Reason != v1alpha1.ReasonQueueLimit || pre.never || pre.minCount == 0 {
		return nil, v, nil
	}
	pre.atLimit, pre.pods = true, pre.pods[:pre.minCount]
	made, err := p.decide(ctx, pre)
	if err != nil {
		return nil, v, err
	}
	if made.decision.Outcome == core.Infeasible {
		p.measure(made)
		p.record(made)
		p.sched.waits.Resolve(pre.key, engine.Reserved, engine.Protection, engine.ProtectionEnds)
		p.scheduleRetry(made)
		if made.decision.RetryAt != 0 || pre.pause != nil {
			v.Message = joined(v.Message, made.decision.Message)
		}
		return nil, v, nil
	}
	// Check the limits again. The limit may be on a resource that no node has, and may count pods
	// that are not in the snapshot.
	gone := p.sched.ledger.Departing()
	for _, victim := range made.victims {
		gone = append(gone, victim.UID)
	}
	if pre.limit(p.sched.ledger, gone...) != (gang.Verdict{}) {
		return nil, v, nil
	}
	if made.decision.Outcome != core.Preempts {
		// The decision has no victims, so the pods that free room below the limit are terminating
		// already.
		made.decision.Message = v.Message
	}
	return made, v, nil
}

// cutToFairShare removes surplus members that exceed the fair share of the queue from the end of a
// gang's plan. It does so only while work of other queues waits for turns, because that work would
// reclaim the room.
func (qc *queueChanges) cutToFairShare(pre *preemptor, plan []engine.Assignment) []engine.Assignment {
	least := max(pre.minCount, 1)
	if pre.queue == "" || len(plan) <= least || !qc.quotas.Used() || !qc.turns.OthersWait(pre.queue, qc.clock.Now()) {
		return plan
	}
	standing := qc.quotas.Snapshot(qc.quotas.Resources())
	if standing == nil {
		return plan
	}
	asked := make(map[engine.UID]queue.Amounts, len(pre.pods))
	for _, pod := range pre.pods {
		asked[string(pod.UID)] = queue.RequestOf(pod)
	}
	requests := make([]queue.Amounts, len(plan))
	for i, seat := range plan {
		requests[i] = asked[seat.Member]
	}
	n := standing.Within(pre.queue, requests, qc.quotas.Unplaced(qc.ledger.ReservedByOthers(pre.key)), kindsOf(pre.pods)...)
	return plan[:max(n, least)]
}

func kindsOf(pods []*corev1.Pod) []string {
	kinds := sets.New[string]()
	for _, pod := range pods {
		kinds.Insert(queue.KindOf(pod))
	}
	return sets.List(kinds)
}

// blockedByQueue returns the verdict if the queue of a single pod blocks it; the zero Verdict
// otherwise. Either the pod may not use the queue, or a limit is reached.
func (gs *gates) blockedByQueue(pod *corev1.Pod) gang.Verdict {
	if v := gs.queueBlocks(pod); v != (gang.Verdict{}) || !gs.quotas.Used() {
		return v
	}
	key := gs.index.KeyOf(pod)
	return gs.askQueue(key, engine.Queue, func() gang.Verdict {
		c := gs.ledger.ClaimOf(pod)
		if c.Bar != (gang.Verdict{}) {
			return c.Bar
		}
		_, v := gs.ledger.WithinLimits(&cluster.Candidate{
			Key: key, Standing: workload.Standing{Priority: gs.index.PriorityOf(pod), Queue: c.Queue}, MinCount: 1, Pods: []*corev1.Pod{pod},
		})
		return v
	})
}
