package admission

import (
	"cmp"
	"maps"
	"time"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// level is how far a waiter lets others go first, because its turns have come to nothing.
type level int

const (
	// ready: not at all.
	ready level = iota
	// yielding: where other queues have work that is ready, that goes first, and what is ready behind it in its own queue, unless that
	// asks for as much.
	yielding
	// failed: its last turn has just come to nothing, and all others go first. It may come again within milliseconds, each time
	// that something changes in the cluster, and what is behind it would have no turn in between.
	failed

	levels
)

// line are those of a queue that wait for their turn, by level, the first in order on top.
type line [levels]heap.Heap[*waiter]

func newLine() *line {
	l := new(line)
	for at := range l {
		l[at].Before = func(a, b **waiter) bool { return order(*a, *b) < 0 }
		l[at].Moved = func(w **waiter, at int) { (*w).place = at }
	}
	return l
}

// len counts those that wait.
func (l *line) len() int {
	n := 0
	for at := range l {
		n += len(l[at].Items)
	}
	return n
}

// isLedByReady reports whether the first in order is ready, those left out that have just failed.
func (l *line) isLedByReady() bool {
	first, yields := l[ready].Items, l[yielding].Items
	return len(first) > 0 && (len(yields) == 0 || order(first[0], yields[0]) < 0)
}

// untried is the first in order that is ready and has had no turn in vain; nil for none.
func (l *line) untried() *waiter {
	var first *waiter
	for _, w := range l[ready].Items {
		if !w.tried && (first == nil || order(w, first) < 0) {
			first = w
		}
	}
	return first
}

// before is the one that goes in the place of one that is ready: what comes before it in order, yields, and asks for no more has found no
// room lately. If there is room for the one that is ready, it is in the other's place.
func (l *line) before(w *waiter) *waiter {
	if yields := l[yielding].Items; len(yields) > 0 && order(yields[0], w) < 0 && yields[0].Request.within(w.Request) {
		return yields[0]
	}
	return w
}

// newRests are all in lines that are not ready, the one on top whose level ends first.
func newRests() heap.Heap[*waiter] {
	return heap.Heap[*waiter]{
		Before: func(a, b **waiter) bool { return (*a).levelEnds().Before((*b).levelEnds()) },
		Moved:  func(w **waiter, at int) { (*w).due = at },
	}
}

// levelAt is the level that a waiter has at a moment.
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

// levelEnds is when the level ends that a waiter stands at.
func (w *waiter) levelEnds() time.Time {
	if w.level == failed {
		return w.lastUntil
	}
	return w.rested
}

// queue puts a waiter in its line.
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

// unqueue takes a waiter out of its line, which it leaves behind even if that is empty.
func (t *turns) unqueue(w *waiter) *line {
	l := t.lines[w.Queue]
	l[w.level].Remove(w.place)
	if w.level != ready {
		t.rests.Remove(w.due)
	}
	return l
}

// leave has a waiter wait no more.
func (t *turns) leave(w *waiter) {
	delete(t.held, w.Key)
	if t.unqueue(w).len() == 0 {
		delete(t.lines, w.Queue)
		delete(t.fresh, w.Queue)
		delete(t.vain, w.Queue)
	}
}

// settle has those change places whose level has ended. It comes before any look at the lines.
func (t *turns) settle(now time.Time) {
	for len(t.rests.Items) > 0 && !t.rests.Items[0].levelEnds().After(now) {
		w := t.rests.Items[0]
		t.unqueue(w)
		t.queue(w, w.levelAt(now))
	}
	maps.DeleteFunc(t.inVain, func(_ string, until time.Time) bool { return !until.After(now) })
}

// order is that inside a queue: by priority, then age.
func order(a, b *waiter) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Since.Compare(b.Since), a.Key.Compare(b.Key))
}
