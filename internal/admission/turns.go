package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/heap"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

const (
	// patience is the time that a turn may take before the next turn begins. A turn that takes
	// longer may have failed without a report, or other work may be ahead of it in the scheduler's
	// queue.
	//
	// The order of queues includes the workload's request until the turn has taken longestTurn.
	patience, longestTurn = time.Second, 10 * time.Second
	// turnLull is the time to wait for another arrival before turns begin, so that workloads
	// retried by one event are ordered together. The wait lasts at most longestLull. It begins only
	// if no workload waits yet and no turn has begun during the last longestLull.
	turnLull, longestLull = 10 * time.Millisecond, 200 * time.Millisecond
	// firstRest and longestRest are the shortest and the longest back-off after failed turns. The
	// back-off doubles with each failure. During firstRest, all other work precedes the workload.
	// During the rest of the back-off, ready work of other queues precedes it.
	firstRest, longestRest = time.Second, 10 * time.Second
)

// Interval is the time between two calls of Admit and RetryForShares without an event. The
// calls are necessary because turns time out.
const Interval = patience

// Request is a workload's request: amounts by resource name, in the units of the fair shares.
type Request map[string]int64

// add adds other to r. Sums saturate at the limits of int64.
func (r Request) add(other Request) {
	for name, v := range other {
		r[name] = fairshare.Add(r[name], v)
	}
}

// within reports whether r is at most other for every resource of r.
func (r Request) within(other Request) bool {
	for name, v := range r {
		if v > other[name] {
			return false
		}
	}
	return true
}

// Waiter is a workload that waits for a turn.
type Waiter struct {
	Key   workload.Key
	Queue string
	// Priority and Since (the time of creation) determine the order inside a queue: the highest
	// priority first, then the oldest workload.
	Priority int32
	Since    time.Time
	Request  Request
	// Kind is the kind of the workload's pods in the quota ledger. Pods of one kind have the
	// same requirements on nodes.
	Kind string
}

// Shares is the state of the queues at one version of the quota ledger.
type Shares interface {
	// HasLeaf reports whether a queue exists and can hold work.
	HasLeaf(queue string) bool
	// Next returns the leaf queue whose turn it is. waiting has the first waiting workload of
	// each leaf queue. underway maps each leaf to the sum of the requests of its admitted
	// workloads without a node.
	Next(waiting []Waiter, underway map[string]Request) (string, bool)
	// At returns the version of the quota ledger. Versions only increase.
	At() uint64
	// Listed returns the version of the tree of queues. Versions only increase.
	Listed() uint64
	// Eased returns the version of the quota ledger at the last change that made reclaim easier
	// for the leaf queue.
	Eased(queue string) uint64
	// Entitled reports whether the workload's leaf queue would stay within its fair share if
	// the workload ran.
	Entitled(Waiter) bool
	// HasShare reports whether the workload's leaf queue has a fair share of every resource
	// that the workload requests.
	HasShare(Waiter) bool
	// Plenty reports whether the leaf queue and the cluster have room for all queued work, in
	// any order. It ignores workloads that are not Servable.
	Plenty(queue string) bool
	Servable(workload.Key) bool
}

// turns holds the queued workloads and their turns. The List's lock guards it.
type turns struct {
	// held holds the workloads that wait for a turn.
	held map[workload.Key]*waiter
	// lines holds the same workloads as held, by queue and in the order of their turns.
	lines map[string]*backlog
	// rests holds the workloads of held that are not ready, ordered by the end of their level.
	rests heap.Heap[*waiter]
	// admitted holds the workloads whose turn has begun, also after it is over.
	admitted map[workload.Key]*waiter
	// underway holds the admitted workloads that have no decision yet.
	underway map[workload.Key]*waiter
	freely   freely
	// inVain maps a queue to a time. Until that time, yielding work of the queue does not take the
	// turns of the queue's ready work, because such a turn has just failed. See backlog.before.
	inVain map[string]time.Time
	// vain counts, by queue, the failed turns since the last successful turn.
	vain map[string]failedTurns
	// backingOff holds the workloads whose last turn failed, until they enter again.
	backingOff map[workload.Key]*waiter
	// last is the time when a turn last began. arrived is the time when a workload last entered.
	// lullBegan is the time of the first arrival after an idle period; zero means that there is no
	// lull.
	last, arrived, lullBegan time.Time
	batch                    batch
	// listed is the version of the tree of queues that outsiders last checked.
	listed uint64
	// fresh is the set of queues that got their first waiting workload since that check.
	fresh map[string]bool
}

// waiter is a Waiter with its state in the List.
type waiter struct {
	Waiter
	// level is the waiter's level, and place is its index in the heap of that level. due is its
	// index in the heap rests.
	level      level
	place, due int
	// began is the time of admission.
	began time.Time
	// seen is the version of the quota ledger at the time of admission.
	seen uint64
	// seat is the position in the scheduler's queue.
	seat Position
	// failures is the number of consecutive failed turns. All other work precedes the waiter
	// until lastUntil, and ready work of other queues until rested.
	failures          int
	lastUntil, rested time.Time
	// early is true if the waiter took the turn of a ready workload although it was yielding
	// itself; see backlog.before. tried is true if any turn of the workload has failed.
	early, tried bool
	// came is the time of arrival.
	came time.Time
	// told is true once Unreported has returned the waiter.
	told bool
}

func newTurns() turns {
	return turns{
		held: make(map[workload.Key]*waiter), lines: make(map[string]*backlog), admitted: make(map[workload.Key]*waiter),
		underway: make(map[workload.Key]*waiter), backingOff: make(map[workload.Key]*waiter), rests: newRests(),
		inVain: make(map[string]time.Time), vain: make(map[string]failedTurns), fresh: make(map[string]bool), freely: newFreely(),
		batch: batch{most: 1, called: make(map[workload.Key]*waiter)},
	}
}

// Turn is the state of a workload's turn in a queue.
type Turn int

const (
	// NotEntered means that the workload neither has a turn nor waits for one.
	NotEntered Turn = iota
	// Held means that the workload waits for its turn.
	Held
	// Admitted means that the workload's turn has begun or is over.
	Admitted
)

// TurnOf returns the state of a workload's turn in a queue.
func (l *List) TurnOf(key workload.Key, queue string) Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.turns.admitted[key]; ok && w.Queue == queue {
		return Admitted
	}
	if w, ok := l.turns.held[key]; ok && w.Queue == queue {
		return Held
	}
	return NotEntered
}

// IsUnderway reports whether a workload has a turn or a free pass and the scheduler has not
// decided on it yet.
func (l *List) IsUnderway(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns.underway[key] != nil || l.turns.freely.underway[key] != nil
}

// Enter makes a workload wait for its turn. A workload that is already waiting in the same queue
// keeps its position.
func (l *List) Enter(w Waiter, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.present(w.Key) {
		return
	}
	t := &l.turns
	if before, ok := t.admitted[w.Key]; ok && before.Queue != w.Queue {
		delete(t.admitted, w.Key)
		delete(t.underway, w.Key)
		t.freely.forget(w.Key)
	}
	if queue, doubted := t.freely.doubts[w.Key]; doubted && queue != w.Queue {
		delete(t.freely.doubts, w.Key)
	}
	if before, ok := t.held[w.Key]; ok {
		if before.Queue == w.Queue {
			return
		}
		t.leave(before)
	}
	t.enter(t.waiterOf(w, now), now)
	l.signal()
}

// waiterOf returns a new waiter for a workload. The waiter keeps the failures of the workload's
// earlier turns.
func (t *turns) waiterOf(w Waiter, now time.Time) *waiter {
	next := &waiter{Waiter: w, came: now}
	if last := t.backingOff[w.Key]; last != nil {
		next.failures, next.lastUntil, next.rested, next.seen, next.tried = last.failures, last.lastUntil, last.rested, last.seen, last.tried
	}
	delete(t.backingOff, w.Key)
	return next
}

func (t *turns) enter(w *waiter, now time.Time) {
	if len(t.held) == 0 && now.Sub(t.last) > longestLull {
		t.lullBegan = now
	}
	t.arrived = now
	t.held[w.Key] = w
	t.queue(w, w.levelAt(now))
}

// Holds reports whether a workload waits for its turn.
func (l *List) Holds(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.turns.held[key]
	return ok
}

// AnyQueued reports whether any workload waits for its turn.
func (l *List) AnyQueued() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns.held) > 0
}

// CanBegin reports whether Admit can begin a turn: workloads wait, and no turn that began at
// most patience ago is under way.
func (l *List) CanBegin(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns.held) > 0 && l.turns.prompt(now) == 0
}

// Decided records that the scheduler decided on a workload but found no free room. Either it evicts
// victims, or it knows the reason for the lack of room. The next turn can begin.
func (l *List) Decided(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.cameToSomething(key)
	l.foundNoRoom(key)
}

// TurnFailed records that the turn of a workload failed. When the workload enters again, it
// backs off and waits for another turn.
func (l *List) TurnFailed(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.turns.underway[key]; ok && l.turns.lines[w.Queue] != nil {
		vain := l.turns.vain[w.Queue]
		vain.count++
		l.turns.vain[w.Queue] = vain
	}
	if w, ok := l.turns.admitted[key]; ok {
		delete(l.turns.admitted, key)
		l.turns.backingOff[key] = w
		w.lastUntil = w.began.Add(firstRest)
		if w.early {
			l.turns.inVain[w.Queue] = w.lastUntil
		}
		w.rested = w.began.Add(min(firstRest<<min(w.failures, 10), longestRest))
		w.failures++
		w.tried = true
	}
	l.foundNoRoom(key)
}

// cameToSomething resets the count of failed turns of the workload's queue, because the turn
// has succeeded.
func (t *turns) cameToSomething(key workload.Key) {
	if w, ok := t.underway[key]; ok {
		delete(t.vain, w.Queue)
	}
}

// foundNoRoom ends the turn of a workload that found no room. It recalls the workloads of the
// batch that were admitted after it, because they were selected as if it had found room.
func (l *List) foundNoRoom(key workload.Key) {
	if l.endTurn(key) {
		l.turns.callBack()
	}
	l.doubt(key)
}

// TurnEnds ends the turn of a gang. Call it when all members that the turn admitted have nodes.
// Further members wait for another turn.
func (l *List) TurnEnds(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.turns.admitted, key)
	l.turns.freely.forget(key)
	l.endTurn(key)
}

// endTurn ends the turn of a workload, so that the next turn can begin. It reports whether the
// workload had a turn.
func (l *List) endTurn(key workload.Key) bool {
	_, ok := l.turns.underway[key]
	if ok {
		delete(l.turns.underway, key)
		l.signal()
	}
	return ok
}

// EndBackoff ends the back-off of a workload. Call it when the workload has changed.
func (l *List) EndBackoff(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.turns
	if w := t.held[key]; w != nil {
		t.unqueue(w)
		w.rouse()
		t.queue(w, ready)
	}
	if w := t.backingOff[key]; w != nil {
		w.rouse()
	}
}

func (w *waiter) rouse() { w.failures, w.lastUntil, w.rested = 0, time.Time{}, time.Time{} }

// AdmitDirectly admits a workload without waiting for its turn, even if its turn was recalled.
// If the workload has a turn, the turn continues.
//
// AdmitDirectly reports whether the workload was waiting for its turn. The caller must retry
// such a workload, because nothing has retried it since it began to wait.
func (l *List) AdmitDirectly(w Waiter, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.present(w.Key) {
		return false
	}
	t := &l.turns
	delete(t.batch.called, w.Key)
	held, ok := t.held[w.Key]
	if ok {
		t.leave(held)
		l.signal()
	}
	if before := t.admitted[w.Key]; before == nil || before.Queue != w.Queue {
		// Leave the state that a turn would leave. So if the workload fails, RetryForShares returns
		// it when shares change.
		next := t.waiterOf(w, now)
		next.began = now
		t.admitted[w.Key] = next
	}
	return ok
}

// forget drops a workload, and reports whether it had a turn.
func (t *turns) forget(key workload.Key) (wasUnderway bool) {
	if w, ok := t.held[key]; ok {
		t.leave(w)
	}
	_, wasUnderway = t.underway[key]
	delete(t.underway, key)
	delete(t.admitted, key)
	delete(t.backingOff, key)
	delete(t.batch.called, key)
	t.freely.forget(key)
	return wasUnderway
}

func (t *turns) len() int {
	return len(t.held) + len(t.admitted) + len(t.backingOff) + len(t.batch.called) + len(t.freely.doubts) + len(t.vain)
}

// lullEnds returns the end of the wait for further arrivals, or zero if there is no wait.
func (t *turns) lullEnds(now time.Time) time.Time {
	if t.lullBegan.IsZero() || len(t.held) == 0 {
		return time.Time{}
	}
	ends := t.arrived.Add(turnLull)
	if most := t.lullBegan.Add(longestLull); most.Before(ends) {
		ends = most
	}
	if !ends.After(now) {
		return time.Time{}
	}
	return ends
}

// IsGathering reports whether it is too early to order the waiting workloads, because one event may
// still retry further workloads. See [List.GatheringEnds].
func (l *List) IsGathering(now time.Time) bool { return !l.GatheringEnds(now).IsZero() }
