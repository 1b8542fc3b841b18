package admission

import (
	"cmp"
	"maps"
	"time"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// level is the precedence of a waiting workload. A failed turn lowers the level for some time.
type level int

const (
	// ready: the workload has the normal position in its queue, by its priority and age.
	ready level = iota
	// yielding: ready work of other queues precedes the workload. Later ready work of its own queue
	// also precedes it, except work that requests at least as much.
	yielding
	// failed: the workload's turn has just failed, and all other work precedes it. Without this
	// level, events could retry the workload every few milliseconds, and work behind it would
	// get no turn.
	failed

	levels
)

// backlog holds the waiting workloads of one queue, as one heap for each level. The top of a
// heap is its first workload in order.
type backlog [levels]heap.Heap[*waiter]

func newLine() *backlog {
	l := new(backlog)
	for at := range l {
		l[at].Before = func(a, b **waiter) bool { return order(*a, *b) < 0 }
		l[at].Moved = func(w **waiter, at int) { (*w).place = at }
	}
	return l
}

func (l *backlog) len() int {
	n := 0
	for at := range l {
		n += len(l[at].Items)
	}
	return n
}

// isLedByReady reports whether a ready waiter is the first among the ready and yielding
// waiters. Waiters of level failed are ignored.
func (l *backlog) isLedByReady() bool {
	first, yields := l[ready].Items, l[yielding].Items
	return len(first) > 0 && (len(yields) == 0 || order(first[0], yields[0]) < 0)
}

// untried returns the first, in order, of the ready waiters whose workloads have had no failed
// turn; nil if there is none.
func (l *backlog) untried() *waiter {
	var first *waiter
	for _, w := range l[ready].Items {
		if !w.tried && (first == nil || order(w, first) < 0) {
			first = w
		}
	}
	return first
}

// before returns the waiter that gets the turn of the ready waiter w. This is the first yielding
// waiter if that waiter precedes w in order and requests no more of any resource. Otherwise it is
// w. The yielding waiter found no room lately. But it requests no more than w, so room that is
// large enough for w is large enough for this waiter too.
func (l *backlog) before(w *waiter) *waiter {
	if yields := l[yielding].Items; len(yields) > 0 && order(yields[0], w) < 0 && yields[0].Request.within(w.Request) {
		return yields[0]
	}
	return w
}

// newRests returns an empty heap for the waiters that are not ready. The top is the waiter
// whose level ends first.
func newRests() heap.Heap[*waiter] {
	return heap.Heap[*waiter]{
		Before: func(a, b **waiter) bool { return (*a).levelEnds().Before((*b).levelEnds()) },
		Moved:  func(w **waiter, at int) { (*w).due = at },
	}
}

func (w *waiter) levelAt(now time.Time) level {
	switch {
	case w.lastUntil.After(now):
		return failed
	case w.rested.After(now):
		return yielding
	default:
		return ready
	}
}

// levelEnds returns the time when the waiter's current level ends.
func (w *waiter) levelEnds() time.Time {
	if w.level == failed {
		return w.lastUntil
	}
	return w.rested
}

// queue adds a waiter to the backlog of its queue, at the given level.
func (t *turns) queue(w *waiter, at level) {
	l := t.lines[w.Queue]
	if l == nil {
		l = newLine()
		t.lines[w.Queue] = l
		t.fresh[w.Queue] = true
	}
	w.level = at
	l[at].Push(w)
	if at != ready {
		t.rests.Push(w)
	}
}

// unqueue removes a waiter from the backlog of its queue and returns that backlog. It keeps an
// empty backlog.
func (t *turns) unqueue(w *waiter) *backlog {
	l := t.lines[w.Queue]
	l[w.level].Remove(w.place)
	if w.level != ready {
		t.rests.Remove(w.due)
	}
	return l
}

// leave removes a waiter that no longer waits for a turn, and drops the state of a queue
// without waiters.
func (t *turns) leave(w *waiter) {
	delete(t.held, w.Key)
	if t.unqueue(w).len() == 0 {
		delete(t.lines, w.Queue)
		delete(t.fresh, w.Queue)
		delete(t.vain, w.Queue)
	}
}

// settle moves each waiter whose level has ended to its next level. Call it before reading the
// backlogs.
func (t *turns) settle(now time.Time) {
	for len(t.rests.Items) > 0 && !t.rests.Items[0].levelEnds().After(now) {
		w := t.rests.Items[0]
		t.unqueue(w)
		t.queue(w, w.levelAt(now))
	}
	maps.DeleteFunc(t.inVain, func(_ string, until time.Time) bool { return !until.After(now) })
}

// order compares two waiters of a queue by priority (highest first), then age (oldest first),
// then key.
func order(a, b *waiter) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Since.Compare(b.Since), a.Key.Compare(b.Key))
}
