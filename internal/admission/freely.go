package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// freely is what goes without waiting for its turn, because there is room for all that waits: which goes first makes no difference
// then. When there is no such plenty any more, those are called back that have no place yet. The List's lock guards it.
type freely struct {
	// underway are those that have no place yet.
	underway map[workload.Key]*waiter
	// doubts are those that went so and found no room, with their queues. As long as they wait, and the books know of no reason, there is no
	// telling for which others it may be so.
	doubts map[workload.Key]string
}

func newFreely() freely {
	return freely{underway: make(map[workload.Key]*waiter), doubts: make(map[workload.Key]string)}
}

func (f *freely) forget(key workload.Key) {
	delete(f.underway, key)
	delete(f.doubts, key)
}

// Pass has a workload go at once that comes while there is plenty of room for all that waits in its queue, see [Shares.Plenty]. It
// reports false where it has to enter.
func (l *List) Pass(w Waiter, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.turns
	if len(t.freely.doubts) > 0 {
		return false
	}
	if before := t.held[w.Key]; before != nil {
		t.leave(before)
	}
	t.goFreely(t.waiterOf(w, now), now)
	return true
}

func (t *turns) goFreely(w *waiter, now time.Time) {
	w.began, w.seat, w.early = now, Seat{}, false
	t.admitted[w.Key] = w
	t.freely.underway[w.Key] = w
	// Its turn in a queue that it was in before.
	delete(t.underway, w.Key)
	delete(t.batch.called, w.Key)
}

// mostPassedOver is of how many workloads of a queue that nothing could serve is found out at a time that they are.
const mostPassedOver = 64

// releaseFreely has all go for whose queues there is plenty of room.
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

// Recall has those wait for their turn that went freely and have no place yet, where there is not plenty of room for their queue any more.
// Call it when that is known: the books know then why some have found no room, and others may go freely.
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

// AnyFree reports whether any went freely that have no place yet, or have found none.
func (l *List) AnyFree() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns.freely.underway)+len(l.turns.freely.doubts) > 0
}

// doubt records that a workload that went freely has found no room: all others that did are called back.
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

// recall has those wait for their turn that went freely and have no place yet. It reports whether there were any.
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
