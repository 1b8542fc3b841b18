package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// freely holds the workloads with a free pass. They are admitted without turns while there is
// room for all queued work in any order. When room becomes scarce, the workloads without a node
// are recalled. The List's lock guards it.
type freely struct {
	// underway holds the workloads with a free pass that have no node yet.
	underway map[workload.Key]*waiter
	// doubts maps each workload that found no room despite a free pass to its queue. A doubt ends
	// when the workload is placed, or when the quota ledger shows the lack of room. Until then, no
	// workload gets a free pass, because other workloads may find no room either.
	doubts map[workload.Key]string
}

func newFreely() freely {
	return freely{underway: make(map[workload.Key]*waiter), doubts: make(map[workload.Key]string)}
}

func (f *freely) forget(key workload.Key) {
	delete(f.underway, key)
	delete(f.doubts, key)
}

// Pass gives a free pass to a workload whose queue has plenty of room. The caller must check
// that first, see [Shares.Plenty]. Pass returns false if an earlier workload with a free pass
// found no room. The caller must then call [List.Enter].
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
	// If the workload has changed its queue, it may still have a turn in its old queue.
	delete(t.underway, w.Key)
	delete(t.batch.called, w.Key)
}

// mostPassedOver is the maximum number of workloads that releaseFreely skips in one queue
// because they are not servable. It leaves the rest of that queue for a later call.
const mostPassedOver = 64

// releaseFreely gives a free pass to the servable workloads of queues with plenty of room.
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

// Recall recalls workloads that have a free pass but no node, if their queue no longer has plenty
// of room. Call it when the quota ledger is up to date. The ledger then explains why workloads of
// these queues found no room, so Recall also removes them from doubts.
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

// AnyFree reports whether any workload with a free pass has no node yet, or has found no room.
func (l *List) AnyFree() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns.freely.underway)+len(l.turns.freely.doubts) > 0
}

// doubt records that a workload with a free pass found no room. It recalls all other workloads
// with a free pass.
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

// recall calls a function, the argument which, for each workload that has a free pass but no node.
// It recalls the workload if the function returns true. The result is true if any workload was
// recalled.
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
