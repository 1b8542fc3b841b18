package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// longestBatch is how many workloads go at a time at most. What arrives meanwhile goes after them, as it goes after a turn
// that is under way.
const longestBatch = 16

// batch is what is let through at a time, in an order that the scheduler's queue keeps (see [List.Seat]): on one standing of the
// books, each on top of those before it. The books stand so as long as each finds its place. Where one does not, those after it
// are called back, and turns are one at a time until some in a row have found their place. The List's lock guards it.
type batch struct {
	// most is how many go in the next batch, and left is how many of the last one have not found their place yet.
	most, left int
	// called are those that were called back, until they have been turned away, and since is when the first turn began while there were any.
	called map[workload.Key]*waiter
	since  time.Time
}

// startOver has turns be one at a time, until some in a row have found their place.
func (b *batch) startOver() { b.most, b.left = 1, 0 }

// size is how many go next. It is one as long as those that were called back may still be in the scheduler's queue, which keeps in its old
// place what is given another; for longestTurn at most, as some may be held back elsewhere.
func (b *batch) size(now time.Time) int {
	switch {
	case len(b.called) == 0:
		b.since = time.Time{}
		return b.most
	case b.since.IsZero():
		b.since = now
	case now.Sub(b.since) > longestTurn:
		return b.most
	}
	return 1
}

// Seat is a workload's place in the scheduler's queue: by priority, then by time.
type Seat struct {
	Priority int32
	Time     time.Time
}

// after is the seat of the one that goes next after another: at its own priority and age, unless that would put it first.
func (s Seat) after(last Seat) Seat {
	next := Seat{Priority: min(s.Priority, last.Priority), Time: s.Time}
	if !next.Time.After(last.Time) {
		next.Time = last.Time.Add(1)
	}
	return next
}

// Seat is the place in the scheduler's queue of a workload whose turn it is; false for others, and for what goes freely, which have the
// one of their own priority and time.
func (l *List) Seat(key workload.Key) (Seat, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.turns.underway[key]; ok {
		return w.seat, true
	}
	if w, ok := l.turns.batch.called[key]; ok && w.seat != (Seat{}) {
		return w.seat, true
	}
	return Seat{}, false
}

// TurnAway reports whether a workload that comes was called back after its turn had begun. It waits for another one.
func (l *List) TurnAway(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.turns.batch.called[key]
	delete(l.turns.batch.called, key)
	return ok
}

// admit begins the turns of a batch, whose first comes first.
func (t *turns) admit(shares Shares, now time.Time) (out []workload.Key) {
	var last *waiter
	c, most := t.round(now), t.batch.size(now)
	for len(t.held) > 0 && len(out) < most {
		w := t.next(c, shares, now)
		w.seat = Seat{Priority: w.Priority, Time: w.Since}
		if last != nil {
			w.seat = w.seat.after(last.seat)
		}
		t.underway[w.Key] = w
		t.last, w.began, w.seen = now, now, shares.At()
		out, last = append(out, w.Key), w
	}
	t.batch.left = len(out)
	return out
}

// foundPlace records that a workload of the batch has found its place. Once all have, more go at a time.
func (t *turns) foundPlace() {
	if t.batch.left--; t.batch.left == 0 {
		t.batch.most = min(2*t.batch.most, longestBatch)
	}
}

// callBack has those wait for another turn that went after one that did not find its place: the books are to be looked at anew.
func (t *turns) callBack() {
	t.batch.startOver()
	for key, w := range t.underway {
		if !w.began.Equal(t.last) {
			// It has taken its time already.
			continue
		}
		delete(t.underway, key)
		t.callBackOne(w)
	}
}

// callBackOne has one wait for another turn whose turn has begun.
func (t *turns) callBackOne(w *waiter) {
	delete(t.admitted, w.Key)
	t.batch.called[w.Key] = w
	t.held[w.Key] = w
	t.queue(w, w.levelAt(w.began))
}

// keep has one not wait for another turn that was called back while it found its place.
func (t *turns) keep(key workload.Key) {
	if w := t.batch.called[key]; w != nil && t.held[key] == w {
		t.pass(w)
	}
}
