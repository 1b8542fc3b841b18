package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/heap"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

const (
	// patience is the time that a turn may take before the next one begins. After it, the turn may
	// have failed without a report, or other work may be ahead in the scheduler's queue. The
	// request of the workload counts in the order of queues until the turn has taken longestTurn.
	patience, longestTurn = time.Second, 10 * time.Second
	// turnLull is the time to wait for another arrival before turns begin, so that workloads that
	// one event retries are ordered together. The wait takes longestLull at most, and only follows
	// an idle period of that length.
	turnLull, longestLull = 10 * time.Millisecond, 200 * time.Millisecond
	// firstRest and longestRest are the shortest and the longest time that a workload backs off
	// after failed turns while others wait. The time doubles with each failure. All other work
	// comes first during firstRest, and work of other queues for the whole time.
	firstRest, longestRest = time.Second, 10 * time.Second
)

// Interval is the time between two calls of Admit and Eased without an event, because turns time
// out.
const Interval = patience

// Request is the request of a workload, by resource. The units are the shares' units.
type Request map[string]int64

// add adds other. Sums are limited to the range of int64.
func (r Request) add(other Request) {
	for name, v := range other {
		r[name] = fairshare.Add(r[name], v)
	}
}

// within reports whether no resource exceeds other.
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
	// Priority, then Since, the time of creation, are the order inside a queue.
	Priority int32
	Since    time.Time
	Request  Request
	// Kind is the kind of the workload's pods in the quota ledger, by their requirements on nodes.
	Kind string
}

// Shares is the state of the queues at one version of the quota ledger.
type Shares interface {
	// HasLeaf reports whether a queue exists and can hold work.
	HasLeaf(queue string) bool
	// Next returns the leaf queue whose turn it is, from the first waiting workload of each leaf.
	// underway is the requests of admitted workloads without a node, by leaf.
	Next(waiting []Waiter, underway map[string]Request) (string, bool)
	// At returns the version of the quota ledger. Versions increase with time.
	At() uint64
	// Listed returns the version of the tree of queues. Versions increase with time.
	Listed() uint64
	// Eased returns the version of the quota ledger at the last change that made reclaim easier for
	// a leaf.
	Eased(queue string) uint64
	// Entitled reports whether the leaf of a workload would stay within its fair share if the
	// workload ran.
	Entitled(Waiter) bool
	// HasShare reports whether the leaf of a workload has a share of every requested resource.
	HasShare(Waiter) bool
	// Plenty reports whether the leaf and the cluster have room for all queued work, in any order.
	// Workloads that are not Servable do not count.
	Plenty(queue string) bool
	Servable(workload.Key) bool
}

// turns holds the queued work and its turns. The List's lock guards it.
type turns struct {
	// held has the waiters without a turn, and lines has the same waiters by queue. rests has the
	// waiters that are not ready. admitted has the workloads that have had a turn, and underway the
	// admitted workloads without a decision.
	held     map[workload.Key]*waiter
	lines    map[string]*backlog
	rests    heap.Heap[*waiter]
	admitted map[workload.Key]*waiter
	underway map[workload.Key]*waiter
	freely   freely
	// inVain has a time for each queue with a workload that was admitted before the end of its
	// back-off and found no room. Until that time, no workload of the queue is admitted before the
	// end of its back-off.
	inVain map[string]time.Time
	// vain counts the failed turns of a queue since its last successful one.
	vain map[string]failedTurns
	// backingOff are the workloads whose last turn failed.
	backingOff map[workload.Key]*waiter
	// last is the time of the last turn, and arrived the time of the last arrival. lullBegan is the
	// time of the first arrival after an idle period; zero without a lull.
	last, arrived, lullBegan time.Time
	batch                    batch
	// listed is the version of the tree of queues that outsiders last checked. fresh are the queues
	// with a new line since.
	listed uint64
	fresh  map[string]bool
}

// waiter is a Waiter with its state.
type waiter struct {
	Waiter
	// level and place are its position in its line, and due its position in rests.
	level      level
	place, due int
	// began is the time of admission, and seen the version of the quota ledger at that time. The
	// last field is the position in the scheduler's queue.
	began time.Time
	seen  uint64
	seat  Position
	// failures is the number of failed turns in a row. All other work comes first until lastUntil,
	// and work of other queues until rested.
	failures          int
	lastUntil, rested time.Time
	// early is true if the turn began before the rest was over. tried is true if any turn has
	// failed.
	early, tried bool
	// came is the time of arrival. told is true once Untold has returned the waiter.
	came time.Time
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
	// NotEntered: the workload neither has a turn nor waits for one.
	NotEntered Turn = iota
	// Held: the workload waits for its turn.
	Held
	// Admitted: the turn has begun or is over.
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

// IsUnderway reports whether a workload has a turn or a free pass, and there is no decision on it
// yet.
func (l *List) IsUnderway(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns.underway[key] != nil || l.turns.freely.underway[key] != nil
}

// Enter makes a workload wait for its turn. A workload that waits already keeps its position,
// unless its queue has changed.
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

// waiterOf returns the waiter of a workload. It takes over the failures of the last turn.
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

// CanBegin reports whether Admit has a turn to begin: workloads wait, and every earlier turn
// is over or takes too long.
func (l *List) CanBegin(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns.held) > 0 && l.turns.prompt(now) == 0
}

// Decided records a decision that found no place for a workload: its victims are being evicted, or
// the reason for the lack of room is known. The next turn can begin.
func (l *List) Decided(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.cameToSomething(key)
	l.foundNoRoom(key)
}

// TurnFailed records that the turn of a workload failed. When the workload comes again, it waits
// for another turn, after others.
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

// cameToSomething records that a turn of a queue has succeeded.
func (t *turns) cameToSomething(key workload.Key) {
	if w, ok := t.underway[key]; ok {
		delete(t.vain, w.Queue)
	}
}

// foundNoRoom ends the turn of a workload that found no place. It recalls the workloads admitted
// after it, because they were selected as if this workload had a place.
func (l *List) foundNoRoom(key workload.Key) {
	if l.endTurn(key) {
		l.turns.callBack()
	}
	l.doubt(key)
}

// TurnEnds ends the turn of a workload once all members that were to be placed have places. Further
// members wait for another turn.
func (l *List) TurnEnds(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.turns.admitted, key)
	l.turns.freely.forget(key)
	l.endTurn(key)
}

// endTurn ends the turn of a workload, so that the next one can begin. It reports whether the
// workload had one.
func (l *List) endTurn(key workload.Key) bool {
	_, ok := l.turns.underway[key]
	if ok {
		delete(l.turns.underway, key)
		l.signal()
	}
	return ok
}

// EndBackoff ends the back-off of a workload because it has changed.
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

// AdmitDirectly admits a workload without a turn, even if its turn was recalled. A turn that it has
// continues. It reports whether the workload waited for its turn. Such a workload has not been
// retried since it began to wait.
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
		// As after a turn, Eased retries the workload if it fails and shares change.
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

// lullEnds returns the end of the wait for further arrivals; zero without a lull.
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

// IsGathering reports whether retried workloads may still arrive after one event, so that it is too
// early to order them.
func (l *List) IsGathering(now time.Time) bool { return !l.GatheringEnds(now).IsZero() }
