package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// freely holds the workloads with a free pass, which are admitted while there is room for all
// queued work in any order. If there no longer is, the workloads without a place are recalled. The
// List's lock guards it.
type freely struct {
	// underway holds the workloads that have no place yet.
	underway map[workload.Key]*waiter
	// doubts maps each workload that found no room despite a free pass to its queue. While such a
	// workload waits and the quota ledger does not explain the lack of room, any other workload may
	// find no room either. So no workload gets a free pass.
	doubts map[workload.Key]string
}

func newFreely() freely {
	return freely{underway: make(map[workload.Key]*waiter), doubts: make(map[workload.Key]string)}
}

func (f *freely) forget(key workload.Key) {
	delete(f.underway, key)
	delete(f.doubts, key)
}

// Pass gives a free pass to a workload that arrives while its queue has plenty of room. The caller
// checks that; see [Shares.Plenty]. Pass returns false if there are doubts, and then the workload
// must Enter.
func (l *List) Pass(w Waiter, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.turns
	if len(t.freely.doubts) > 0 || !l.present(w.Key) {
		return false
	}
	if before := t.held[w.Key]; before != nil {
		t.leave(before)
	}
	t.goFreely(t.waiterOf(w, now), now)
	return true
}

func (t *turns) goFreely(w *waiter, now time.Time) {
	w.began, w.seat, w.early = now, Position{}, false
	t.admitted[w.Key] = w
	t.freely.underway[w.Key] = w
	// The workload may have a turn in an earlier queue.
	delete(t.underway, w.Key)
	delete(t.batch.called, w.Key)
}

// mostPassedOver is the largest number of workloads of a queue that releaseFreely skips at a time
// because they are not servable.
const mostPassedOver = 64

// releaseFreely gives a free pass to all servable workloads of queues with plenty of room.
func (t *turns) releaseFreely(shares Shares, now time.Time) (out []workload.Key) {
	if len(t.freely.doubts) > 0 {
		return nil
	}
	var free []*waiter
	for name, l := range t.lines {
		if !shares.Plenty(name) {
			continue
		}
		passedOver := 0
		for _, w := range slices.Concat(l[ready].Items, l[yielding].Items, l[failed].Items) {
			if passedOver == mostPassedOver {
				break
			}
			if shares.Servable(w.Key) {
				free = append(free, w)
			} else {
				passedOver++
			}
		}
	}
	slices.SortFunc(free, order)
	for _, w := range free {
		t.leave(w)
		w.seen = shares.At()
		t.goFreely(w, now)
		out = append(out, w.Key)
	}
	return out
}

// Recall recalls workloads with a free pass and no place, if their queue no longer has plenty of
// room. Call it once the quota ledger is up to date. The ledger then explains why workloads of
// these queues found no room, so Recall also ends the doubts about them.
func (l *List) Recall(plenty func(queue string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.turns
	known := make(map[string]bool)
	scarce := func(queue string) bool {
		if _, ok := known[queue]; !ok {
			known[queue] = plenty(queue)
		}
		return !known[queue]
	}
	maps.DeleteFunc(t.freely.doubts, func(_ workload.Key, queue string) bool { return scarce(queue) })
	t.recall(func(w *waiter) bool { return scarce(w.Queue) })
}

// AnyFree reports whether any workload with a free pass has no place yet, or whether there are
// doubts.
func (l *List) AnyFree() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns.freely.underway)+len(l.turns.freely.doubts) > 0
}

// doubt records that a workload with a free pass found no room, and recalls all others.
func (l *List) doubt(key workload.Key) {
	t := &l.turns
	w := t.freely.underway[key]
	if w == nil {
		return
	}
	t.freely.forget(key)
	t.freely.doubts[key] = w.Queue
	if t.recall(func(*waiter) bool { return true }) {
		l.signal()
	}
}

// recall recalls the workloads with a free pass and no place that the function which selects. It
// reports whether there were any.
func (t *turns) recall(which func(*waiter) bool) (some bool) {
	for key, w := range t.freely.underway {
		if which(w) {
			delete(t.freely.underway, key)
			t.callBackOne(w)
			some = true
		}
	}
	if some {
		t.batch.startOver()
	}
	return some
}
