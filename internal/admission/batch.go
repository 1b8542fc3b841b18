package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// longestBatch is the maximum number of workloads in a batch. A workload that arrives while a
// batch is under way waits for the next batch.
const longestBatch = 16

// batch is the state of the workloads that are admitted together. They are selected on one version
// of the quota ledger. Each workload is selected as if the earlier workloads of the batch had found
// room. The scheduler's queue keeps their order.
//
// If a workload of the batch finds no room, the workloads after it are recalled. The next batch
// then has size 1. The size grows while the workloads of a batch find room. The List's lock guards
// a batch.
type batch struct {
	// most is the size of the next batch. left is the number of workloads of the last batch
	// that have not found room yet.
	most, left int
	// called holds the recalled workloads that TurnAway has not reported yet.
	called map[workload.Key]*waiter
	// since is the time when batches were first limited to one workload because of called. It is
	// zero if called is empty.
	since time.Time
}

// startOver limits the next batch to one workload.
func (b *batch) startOver() { b.most, b.left = 1, 0 }

// size returns the size of the next batch. It is 1 while recalled workloads may still be in the
// scheduler's queue, because their position there cannot change. This limit ends after longestTurn:
// a recalled workload that another cause blocks has no scheduling cycle, so TurnAway never removes
// it from called.
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

// Position is a workload's position in the scheduler's queue, which is sorted by priority, then by
// time.
type Position struct {
	Priority int32
	Time     time.Time
}

// after returns the position s if it is behind the position last. Otherwise it returns the nearest
// position behind last.
func (s Position) after(last Position) Position {
	next := Position{Priority: min(s.Priority, last.Priority), Time: s.Time}
	if !next.Time.After(last.Time) {
		next.Time = last.Time.Add(1)
	}
	return next
}

// Position returns the position of a workload in the scheduler's queue during its turn. It
// returns false if the workload has no turn or has a free pass. The workload's own priority and
// creation time then determine its position.
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

// TurnAway reports whether the turn of a workload was recalled after it began. Call it at the
// beginning of a scheduling cycle, and end the cycle if it returns true: the workload waits for
// another turn. Further calls for the same recall return false.
func (l *List) TurnAway(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.turns.batch.called[key]
	delete(l.turns.batch.called, key)
	return ok
}

// admit begins the turns of a batch and returns its workloads in order.
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

// foundPlace records that a workload of the batch has found room. After the last one, the size
// of the next batch doubles.
func (t *turns) foundPlace() {
	if t.batch.left--; t.batch.left == 0 {
		t.batch.most = min(2*t.batch.most, longestBatch)
	}
}

// callBack recalls the remaining workloads of the batch because a workload before them found no
// room. The batch selected each of these workloads under the assumption that all workloads before
// it find room.
func (t *turns) callBack() {
	t.batch.startOver()
	for key, w := range t.underway {
		if !w.began.Equal(t.last) {
			// This turn belongs to an earlier batch.
			continue
		}
		delete(t.underway, key)
		t.callBackOne(w)
	}
}

// callBackOne ends a turn that has begun. The workload then waits for another turn.
func (t *turns) callBackOne(w *waiter) {
	delete(t.admitted, w.Key)
	t.batch.called[w.Key] = w
	t.held[w.Key] = w
	t.queue(w, w.levelAt(w.began))
}

// keep admits a workload again whose turn was recalled. The workload had a scheduling cycle
// nevertheless, and found room.
func (t *turns) keep(key workload.Key) {
	if w := t.batch.called[key]; w != nil && t.held[key] == w {
		t.pass(w)
	}
}
