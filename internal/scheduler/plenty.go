package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// plenty admits workloads without a turn while all queued work has room. [gates] calls
// isAdmittedFreely, and only the main loop calls the other methods.
type plenty struct {
	index  *cluster.Index
	ledger *cluster.Ledger
	quotas *queue.Ledger
	handle framework.Framework
	turns  *admission.List
	clock  clock.WithTicker

	// judgeNext is the earliest time of the next check whether all queued work has room.
	judgeNext time.Time
}

// judgeAgain is the minimum pause between two checks whether all queued work has room. Each check
// reads all nodes.
const judgeAgain = 20 * time.Millisecond

// judgeAgainInVain is the minimum pause after a check that found too little room.
const judgeAgainInVain = 250 * time.Millisecond

// judgeRest is the minimum pause after a check, as a multiple of its duration. The quota ledger is
// locked during a check.
const judgeRest = 10

// isAdmittedFreely reports whether a new workload is admitted without a turn, because all queued
// work has room. PreEnqueue calls it, under the lock of the scheduler's queue.
func (y *plenty) isAdmittedFreely(pod *corev1.Pod, w *admission.Waiter) bool {
	if !y.ledger.HasPlenty(w.Queue) {
		return false
	}
	if !w.Key.Gang && !y.quotas.Knows(pod.UID) {
		// The scheduler's queue may receive the pod before the quota ledger does, so add the pod
		// here.
		y.ledger.Recharge(pod)
	}
	return y.ledger.IsServable(w.Key) && y.ledger.HasPlenty(w.Queue) && y.turns.Pass(*w, y.clock.Now())
}

// follow recalls the workloads that were admitted without a turn, if the room no longer suffices
// for all queued work. The main loop calls it.
func (y *plenty) follow(now time.Time) {
	if y.judge(now) {
		y.turns.Recall(y.ledger.HasPlenty)
	}
}

// nextJudgement returns the earliest time of the next check for room. It returns false if no
// workload that was admitted without a turn depends on the check. The main loop calls it.
func (y *plenty) nextJudgement() (time.Time, bool) {
	return y.judgeNext, y.turns.AnyFree() && y.index.Profiles.KnowFilters() && !y.quotas.Judged()
}

// judge checks whether all queued work has room, if the last result is no longer valid. It does not
// check limits. It reports whether the result that HasPlenty returns is up to date. Before the
// first check, HasPlenty returns false. The main loop calls it.
func (y *plenty) judge(now time.Time) bool {
	if !y.index.Profiles.KnowFilters() || y.quotas.Judged() {
		return true
	}
	if now.Before(y.judgeNext) {
		return false
	}
	pause, began := judgeAgainInVain, y.clock.Now()
	if y.quotas.Judge(func(name corev1.ResourceName) bool { return filters.Delegates(y.handle, name) }) {
		pause = judgeAgain
	}
	ended := y.clock.Now()
	y.judgeNext = ended.Add(max(pause, judgeRest*ended.Sub(began)))
	return true
}
