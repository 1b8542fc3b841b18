package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Lead makes the scheduler active: it takes over the reservations of the previous leader and begins
// to report to users. A standby keeps its caches up to date and does nothing else. Call Lead when
// all pods and groups are known, and before the first pod is scheduled.
func (h *Scheduler) Lead() {
	// Look at the gangs before the first cycle. Otherwise, that cycle could give away the room of
	// members that the gangs have lost.
	h.gangs.Lead()
	h.runs.Settle(h.index.Groups, h.clock.Now())
	h.nominations.inherit()
	h.retries.leads.Store(true)
	// Pods that were queued on the standby get their turns now.
	h.retries.beginTurns(h.clock.Now())
	for _, key := range h.reserved.Keys() {
		// Workloads with reservations need no turn.
		h.retries.Retry(key)
	}
}

// run is the main loop. Until ctx is done, it retries workloads whose time has come and admits
// queued work.
func (h *Scheduler) run(ctx context.Context) {
	ticker := h.clock.NewTicker(admission.Interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		now := h.clock.Now()
		ended := h.progress.Begin("a turn of the main loop", now)
		// 1. Apply postponed effects, retry workloads, and handle changes of PodGroups that are
		// due.
		for _, effect := range h.steps.postponed.take() {
			h.apply(effect)
		}
		h.steps.step(engine.TimePasses{})
		h.groupWatch.followDelayed()
		// 2. Release reservations on nodes that no longer have room for them, because of new pods
		// or fewer resources.
		h.nodes.review(now)
		// 3. Check whether there is still room for all queued work. If not, queued workloads need
		// turns from now on.
		lull := h.turns.IsGathering(now)
		if h.turns.AnyFree() || !lull && h.turns.CanBegin(now) {
			h.plenty.follow(now)
		}
		// 4. Begin the next turns. During a burst of new workloads, wait until it has ended.
		if !lull {
			h.retries.beginTurns(now)
		}
		ended()
		// 5. Wait for an event or for the next scheduled time.
		if ticked := h.waitForWork(ctx, ticker.C(), now); ticked {
			// 6. At a tick, do the work that no event triggers.
			h.tick(now)
		}
	}
}

// tick does the work of each interval:
//
//   - It checks victims that keep running, and drops deleted Queues whose timeout has passed.
//   - It releases reservations on lost nodes and of blocked workloads.
//   - It retries workloads that are no longer blocked, or whose queue has a larger share.
//   - It checks the blocked drivers again, and reports to users why their work waits.
func (h *Scheduler) tick(now time.Time) {
	defer h.progress.Begin("a tick of the main loop", h.clock.Now())()
	h.findStall()
	h.departures.sweep(h.clock.Now())
	h.queues.expire()
	h.nodes.releaseLost()
	h.groupWatch.changes.Prune(now)
	h.gangs.ExpireResults(now)
	h.stale.sweep(now)
	h.lost.sweep()
	h.nodes.releaseBlocked()
	h.gates.retry()
	h.victimPriorities.RetryFallen()
	h.drivers.Retry()
	h.retries.retryTurns()
	if h.retries.leads.Load() {
		h.reporter.ReportTurns()
		h.reporter.ReportMembers(h.clock.Now())
		h.reporter.ReportBlocked()
	}
}

// waitForWork returns when the main loop has work. It reports whether a tick was the reason.
func (h *Scheduler) waitForWork(ctx context.Context, tick <-chan time.Time, now time.Time) (ticked bool) {
	var moment <-chan time.Time
	at, ok := h.engine.NextLook(now)
	if next, due := h.plenty.nextJudgement(); due && (!ok || next.Before(at)) {
		at, ok = next, true
	}
	if next, delayed := h.groupWatch.changes.NextLook(); delayed && (!ok || next.Before(at)) {
		at, ok = next, true
	}
	if ok {
		timer := h.clock.NewTimer(at.Sub(now))
		defer timer.Stop()
		moment = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-h.engine.Wanted():
	case <-h.rooms.toReview.wanted:
	case <-h.drivers.Changed():
		h.drivers.Retry()
	case <-h.quotas.PlentyEnds():
	case <-moment:
	case <-tick:
		return true
	}
	return false
}

// waitsForTurn reports whether a pod must wait for the turn of its workload. PreEnqueue calls it,
// under the lock of the scheduler's queue.
func (gs *gates) waitsForTurn(pod *corev1.Pod) bool {
	if !gs.quotas.Used() {
		return false
	}
	claim := gs.ledger.ClaimOf(pod)
	name, key := claim.Queue, gs.index.KeyOf(pod)
	if name == "" || claim.Bar != (gang.Verdict{}) {
		// Remove the pod from the list of queued work: it may have belonged to a queue before.
		gs.turns.Forget(key)
		return false
	}
	if len(gs.reserved.Of(key)) > 0 || key.Gang && gs.placements.AwaitsNeeded(key) {
		// A gang that runs in part needs no turn, because its placed members are useless until it
		// is whole. Such a gang may still be queued: for its surplus, after a recall, or since the
		// time before this scheduler was the leader. No event retried the gang while it was queued,
		// so retry it here.
		if gs.turns.TurnOf(key, name) == admission.Admitted {
			return false
		}
		if gs.turns.AdmitDirectly(gs.placements.Waiter(key, pod, name), gs.clock.Now()) && key.Gang {
			gs.retries.soon(nameOf(key))
		}
		return false
	}
	switch gs.turns.TurnOf(key, name) {
	case admission.Admitted:
		return false
	case admission.Held:
		return true
	case admission.NotEntered:
	}
	waiter := gs.placements.Waiter(key, pod, name)
	passes := gs.plenty.isAdmittedFreely(pod, &waiter)
	if !passes {
		gs.turns.Enter(waiter, gs.clock.Now())
	}
	return !passes
}

// Stalled returns an error if the main loop or a decision makes no progress. If another goroutine
// holds the lock of the scheduler's queue forever, no pod is scheduled, and the main loop stalls
// too; see findStall. It does not block. Any goroutine may call it.
func (h *Scheduler) Stalled() error { return h.progress.Stalled() }

// findStall acquires and releases the lock of the scheduler's queue. If another goroutine never
// releases the lock, the main loop stalls here, and the health check fails.
func (h *Scheduler) findStall() { h.handle.Activate(klog.Background(), nil) }
