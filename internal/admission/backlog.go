package admission

import (
	"cmp"
	"maps"
	"time"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// level is the precedence of a waiter after failed turns.
type level int

const (
	// ready: the waiter keeps its position in the order.
	ready level = iota
	// yielding: ready work of other queues comes first. Ready work after the waiter in its own
	// queue also comes first, unless it requests at least as much.
	yielding
	// failed: the last turn has just failed, and all other work comes first. The waiter may be
	// retried within milliseconds, at each change in the cluster, and work after it would have no
	// turn in between.
	failed

	levels
)

// backlog holds the waiters of a queue by level. The first in order is on top.
type backlog [levels]heap.Heap[*waiter]

func newLine() *backlog {
	l := new(backlog)
	for at := range l {
		l[at].Before = func(a, b **waiter) bool { return order(*a, *b) < 0 }
		l[at].Moved = func(w **waiter, at int) { (*w).place = at }
	}
	return l
}

// len returns the number of waiters.
func (l *backlog) len() int {
	n := 0
	for at := range l {
		n += len(l[at].Items)
	}
	return n
}

// isLedByReady reports whether the first waiter in order is ready. Waiters that have just failed do
// not count.
func (l *backlog) isLedByReady() bool {
	first, yields := l[ready].Items, l[yielding].Items
	return len(first) > 0 && (len(yields) == 0 || order(first[0], yields[0]) < 0)
}

// untried returns the first ready waiter in order that has had no failed turn; nil for none.
func (l *backlog) untried() *waiter {
	var first *waiter
	for _, w := range l[ready].Items {
		if !w.tried && (first == nil || order(w, first) < 0) {
			first = w
		}
	}
	return first
}

// before returns the waiter that takes the turn of a ready waiter. A yielding waiter does if it is
// first in order and requests no more. It found no room lately, but room for the ready waiter is
// enough for it.
func (l *backlog) before(w *waiter) *waiter {
	if yields := l[yielding].Items; len(yields) > 0 && order(yields[0], w) < 0 && yields[0].Request.within(w.Request) {
		return yields[0]
	}
	return w
}

// newRests returns a heap for all waiters that are not ready. The one with the earliest end of its
// level is on top.
func newRests() heap.Heap[*waiter] {
	return heap.Heap[*waiter]{
		Before: func(a, b **waiter) bool { return (*a).levelEnds().Before((*b).levelEnds()) },
		Moved:  func(w **waiter, at int) { (*w).due = at },
	}
}

// levelAt returns the level of a waiter at a time.
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

// levelEnds returns the time at the end of the waiter's level.
func (w *waiter) levelEnds() time.Time {
	if w.level == failed {
		return w.lastUntil
	}
	return w.rested
}

// queue adds a waiter to its line.
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

// unqueue removes a waiter from its line, and returns the line. An empty line stays.
func (t *turns) unqueue(w *waiter) *backlog {
	l := t.lines[w.Queue]
	l[w.level].Remove(w.place)
	if w.level != ready {
		t.rests.Remove(w.due)
	}
	return l
}

// leave removes a waiter from the turns.
func (t *turns) leave(w *waiter) {
	delete(t.held, w.Key)
	if t.unqueue(w).len() == 0 {
		delete(t.lines, w.Queue)
		delete(t.fresh, w.Queue)
		delete(t.vain, w.Queue)
	}
}

// settle updates the waiters whose level has ended. Call it before reading the lines.
func (t *turns) settle(now time.Time) {
	for len(t.rests.Items) > 0 && !t.rests.Items[0].levelEnds().After(now) {
		w := t.rests.Items[0]
		t.unqueue(w)
		t.queue(w, w.levelAt(now))
	}
	maps.DeleteFunc(t.inVain, func(_ string, until time.Time) bool { return !until.After(now) })
}

// order compares waiters of a queue: by priority, then age.
func order(a, b *waiter) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Since.Compare(b.Since), a.Key.Compare(b.Key))
}
