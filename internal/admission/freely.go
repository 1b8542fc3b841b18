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
	// under way are those that have no place yet.
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
	w.began, w.seat = now, Seat{}
	t.admitted[w.Key] = w
	t.freely.underway[w.Key] = w
	delete(t.batch.called, w.Key)
}

// releaseFreely has all go of whose queues there is plenty of room, and calls those back of whose there is not any more.
func (t *turns) releaseFreely(shares Shares, now time.Time) (out []workload.Key) {
	known := make(map[string]bool)
	plenty := func(queue string) bool {
		is, ok := known[queue]
		if !ok {
			is = shares.Plenty(queue)
			known[queue] = is
		}
		return is
	}
	maps.DeleteFunc(t.freely.doubts, func(_ workload.Key, queue string) bool { return !plenty(queue) })
	if len(t.freely.doubts) > 0 {
		return nil
	}
	t.recall(func(w *waiter) bool { return !plenty(w.Queue) })
	var free []*waiter
	for _, w := range t.held {
		if plenty(w.Queue) && shares.Servable(w.Key) {
			free = append(free, w)
		}
	}
	slices.SortFunc(free, order)
	for _, w := range free {
		t.leave(w)
		t.goFreely(w, now)
		out = append(out, w.Key)
	}
	return out
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
	return some
}
