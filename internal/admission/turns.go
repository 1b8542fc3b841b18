package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/heap"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

const (
	// patience is how long one of them may take before another one goes: it may have failed where nothing told of it, or
	// other work of the scheduler's queue comes first. What it asks for counts for the order until it has taken
	// longestTurn.
	patience, longestTurn = time.Second, 10 * time.Second
	// turnLull: wait this long without a new arrival before letting through, so that workloads woken by one event are
	// ordered together. At most longestLull, and only after an idle period of that length.
	turnLull, longestLull = 10 * time.Millisecond, 200 * time.Millisecond
	// firstRest and longestRest are how long a workload whose turn came to nothing backs off while others wait, doubled
	// each time: for firstRest all others go first, and after that those of other queues.
	firstRest, longestRest = time.Second, 10 * time.Second
)

// Interval is how often LetThrough and Eased are to be called although nothing happens: a turn that takes too long ends.
const Interval = patience

// Request is what a workload asks for, by resource, in whatever units the shares are in.
type Request map[string]int64

// add adds other.
func (r Request) add(other Request) {
	for name, v := range other {
		r[name] += v
	}
}

// within reports whether it is no more than other, of each resource.
func (r Request) within(other Request) bool {
	for name, v := range r {
		if v > other[name] {
			return false
		}
	}
	return true
}

// Waiter is a workload that is to have its turn.
type Waiter struct {
	Key   workload.Key
	Queue string
	// Priority, then Since, which is when it was created, are the order inside a queue.
	Priority int32
	Since    time.Time
	Request  Request
	// Kind says what the workload's pods need of a node, in the words of the books.
	Kind string
}

// Shares are how the queues stand at one moment.
type Shares interface {
	// HasLeaf reports whether work can be in a queue.
	HasLeaf(queue string) bool
	// Next picks the leaf whose turn it is, given the first workload that waits in each; underway is what has been let
	// through, by leaf, and has no node yet.
	Next(waiting []Waiter, underway map[string]Request) (string, bool)
	// At says which standing of the books this is; a later one is higher.
	At() uint64
	// Listed says which tree of queues this is; a later one is higher.
	Listed() uint64
	// Eased is when it last became easier for a leaf to reclaim, as At says it.
	Eased(queue string) uint64
	// Entitled reports whether the leaf of a workload would stay within its fair share with it.
	Entitled(Waiter) bool
	// HasShare reports whether the leaf of a workload is entitled to something of all that is requested.
	HasShare(Waiter) bool
	// Plenty reports whether there is room for all that waits in a leaf, and in the cluster, whichever workload goes first: for all but
	// what is not Servable, as no node or limit could ever give it a place.
	Plenty(queue string) bool
	Servable(workload.Key) bool
}

// turns holds back the work of queues. The List's lock guards it.
type turns struct {
	// held wait for their turn, line by line of a queue; admitted have had it, and underway are not decided on yet. Those in
	// rests are held too, and let others go first for a time.
	held     map[workload.Key]*waiter
	lines    map[string]*line
	rests    heap.Heap[*waiter]
	admitted map[workload.Key]*waiter
	underway map[workload.Key]*waiter
	freely   freely
	// inVain has until when no workload of a queue goes before its rest is over, because one did that and found no room.
	inVain map[string]time.Time
	// vain are the turns of a queue that came to nothing since one of its did not.
	vain map[string]vainTurns
	// backingOff are those whose last turn came to nothing.
	backingOff map[workload.Key]*waiter
	// last is when a workload was let through last, arrived when one came last, and since when arrivals are waited for
	// after an idle period; the zero time where they are not.
	last, arrived, lullBegan time.Time
	batch                    batch
	// listed is the tree of queues by which outsiders were looked for last, and fresh are the queues that have come to have a
	// line since.
	listed uint64
	fresh  map[string]bool
}

// waiter is a Waiter with where it stands.
type waiter struct {
	Waiter
	// level and place are where it stands in its line, and due where it stands in rests.
	level      level
	place, due int
	// began is when it was let through, seen how the queues stood then, and seat where it went in the scheduler's queue.
	began time.Time
	seen  uint64
	seat  Seat
	// failures counts the turns in a row that came to nothing. Until lastUntil all others go first, and until rested those of
	// other queues.
	failures          int
	lastUntil, rested time.Time
	// early is true where it went before that, and tried where any turn of its has come to nothing.
	early, tried bool
	// came is when it began to wait, and told whether its users have been told of that.
	came time.Time
	told bool
}

func newTurns() turns {
	return turns{
		held: make(map[workload.Key]*waiter), lines: make(map[string]*line), admitted: make(map[workload.Key]*waiter),
		underway: make(map[workload.Key]*waiter), backingOff: make(map[workload.Key]*waiter), rests: newRests(),
		inVain: make(map[string]time.Time), vain: make(map[string]vainTurns), fresh: make(map[string]bool), freely: newFreely(),
		batch: batch{most: 1, called: make(map[workload.Key]*waiter)},
	}
}

// Turn is how a workload stands with its turn in a queue.
type Turn int

const (
	// NotEntered: it has none, and does not wait for one.
	NotEntered Turn = iota
	// Held: it waits for it.
	Held
	// Admitted: it has had it.
	Admitted
)

// TurnOf says how a workload stands with its turn in a queue.
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

// IsUnderway reports whether a workload's turn has begun, or it goes freely, and it has not been decided on.
func (l *List) IsUnderway(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns.underway[key] != nil || l.turns.freely.underway[key] != nil
}

// Enter has a workload wait for its turn. One that waits already keeps its place, unless it is in another queue now.
func (l *List) Enter(w Waiter, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
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

// waiterOf is one that comes, or comes again.
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

// AnyHeld reports whether any workload waits for its turn.
func (l *List) AnyHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns.held) > 0
}

// CanBegin reports whether LetThrough has a turn to begin: some wait, and those before them have had theirs, or take too long.
func (l *List) CanBegin(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns.held) > 0 && l.turns.prompt(now) == 0
}

// Decided records that room is being made for a workload, or that it is known why not: the next turn begins.
func (l *List) Decided(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.cameToSomething(key)
	l.foundNoPlace(key)
}

// CameToNothing has a workload wait for another turn when it comes again, later than others.
func (l *List) CameToNothing(key workload.Key) {
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
	l.foundNoPlace(key)
}

// cameToSomething records that a turn of a queue has not been in vain.
func (t *turns) cameToSomething(key workload.Key) {
	if w, ok := t.underway[key]; ok {
		delete(t.vain, w.Queue)
	}
}

// foundNoPlace ends the turn of a workload that was picked on what the books are not: what went with it is called back.
func (l *List) foundNoPlace(key workload.Key) {
	if l.endTurn(key) {
		l.turns.callBack()
	}
	l.doubt(key)
}

// TurnOver has a workload wait for another turn if more of it comes: all of it that was to be placed has its place.
func (l *List) TurnOver(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.turns.admitted, key)
	l.turns.freely.forget(key)
	l.endTurn(key)
}

// endTurn has the next workload go, if it was this one's turn, which it reports.
func (l *List) endTurn(key workload.Key) bool {
	_, ok := l.turns.underway[key]
	if ok {
		delete(l.turns.underway, key)
		l.signal()
	}
	return ok
}

// Rouse ends the backing off of a workload for which something has changed.
func (l *List) Rouse(key workload.Key) {
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

// LeaveTurns has a workload that cannot come wait for no turn, so that others need not wait for it.
func (l *List) LeaveTurns(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns.forget(key) {
		l.signal()
	}
}

// GoBy has a workload go without a turn, and wait for none, not even where it was called back. A turn that it has goes on. It reports whether
// it stood in the line: what did so has heard of nothing since.
func (l *List) GoBy(w Waiter, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.turns
	delete(t.batch.called, w.Key)
	held, ok := t.held[w.Key]
	if ok {
		t.leave(held)
		l.signal()
	}
	if before := t.admitted[w.Key]; before == nil || before.Queue != w.Queue {
		// As one whose turn has begun: where it comes to nothing, shares that change have it tried again.
		next := t.waiterOf(w, now)
		next.began = now
		t.admitted[w.Key] = next
	}
	return ok
}

// forget drops a workload, and reports whether it was its turn.
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

// lullEnds is until when arrivals are waited for; the zero time where they are not.
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

// Lull reports whether workloads are still arriving that one event has woken, so that it is too early to order them.
func (l *List) Lull(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.turns.lullEnds(now).IsZero()
}
