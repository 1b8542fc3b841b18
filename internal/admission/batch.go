package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// longestBatch is the maximum number of workloads in a batch. A workload that arrives meanwhile
// goes after the batch.
const longestBatch = 16

// batch holds the state of the workloads that are admitted together. The scheduler's queue keeps
// their order. They are selected on one version of the quota ledger. Each selection assumes that
// the workloads before it have places.
//
// If a workload of the batch finds no place, the workloads after it are recalled. Turns are then
// one at a time until some in a row have succeeded. The List's lock guards a batch.
type batch struct {
	// most is the size of the next batch. left is the number of workloads of the last batch that
	// have not found a place yet.
	most, left int
	// called holds workloads that were called back, until TurnAway has reported them. since is the
	// time of the first turn while there were any.
	called map[workload.Key]*waiter
	since  time.Time
}

// startOver makes turns one at a time, until some in a row have found places.
func (b *batch) startOver() { b.most, b.left = 1, 0 }

// size returns the size of the next batch. It is 1 while recalled workloads may still be in the
// scheduler's queue, because a workload cannot change its position there. This lasts for
// longestTurn at most, since the workloads may be blocked by other causes.
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

// Position is a workload's position in the scheduler's queue: by priority, then by time.
type Position struct {
	Priority int32
	Time     time.Time
}

// after returns the position of a workload behind another one. It has the workload's own priority
// and age, unless these would put it before the other.
func (s Position) after(last Position) Position {
	next := Position{Priority: min(s.Priority, last.Priority), Time: s.Time}
	if !next.Time.After(last.Time) {
		next.Time = last.Time.Add(1)
	}
	return next
}

// Position returns the position of a workload in the scheduler's queue during its turn. It returns
// false otherwise, and for workloads with a free pass. Their own priority and time determine the
// position.
func (l *List) Position(key workload.Key) (Position, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.turns.underway[key]; ok {
		return w.seat, true
	}
	if w, ok := l.turns.batch.called[key]; ok && w.seat != (Position{}) {
		return w.seat, true
	}
	return Position{}, false
}

// TurnAway reports, once, whether the turn of a workload was recalled after it had begun. Call it
// at the beginning of a scheduling cycle. The workload then waits for another turn.
func (l *List) TurnAway(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.turns.batch.called[key]
	delete(l.turns.batch.called, key)
	return ok
}

// admit begins the turns of a batch, and returns the workloads in order.
func (t *turns) admit(shares Shares, now time.Time) (out []workload.Key) {
	var last *waiter
	c, most := t.round(now), t.batch.size(now)
	for len(t.held) > 0 && len(out) < most {
		w := t.next(c, shares, now)
		w.seat = Position{Priority: w.Priority, Time: w.Since}
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

// foundPlace records that a workload of the batch has found its place. Once all have, the next
// batch is larger.
func (t *turns) foundPlace() {
	if t.batch.left--; t.batch.left == 0 {
		t.batch.most = min(2*t.batch.most, longestBatch)
	}
}

// callBack recalls the turns of workloads because a workload before them found no place. The quota
// ledger must be read again for their next turns.
func (t *turns) callBack() {
	t.batch.startOver()
	for key, w := range t.underway {
		if !w.began.Equal(t.last) {
			// This turn began before the last batch.
			continue
		}
		delete(t.underway, key)
		t.callBackOne(w)
	}
}

// callBackOne ends a turn that has begun. The workload waits for another turn.
func (t *turns) callBackOne(w *waiter) {
	delete(t.admitted, w.Key)
	t.batch.called[w.Key] = w
	t.held[w.Key] = w
	t.queue(w, w.levelAt(w.began))
}

// keep ends the wait of a workload that was recalled while it found its place.
func (t *turns) keep(key workload.Key) {
	if w := t.batch.called[key]; w != nil && t.held[key] == w {
		t.pass(w)
	}
}
