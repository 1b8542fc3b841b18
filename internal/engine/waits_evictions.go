package engine

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Eviction is an eviction for a workload whose API calls are under way.
type Eviction struct {
	key workload.Key
	// stopped is true if StopForEviction stopped a retry of the workload meanwhile.
	stopped bool
}

// StartEviction records that API calls to evict victims for a workload are under way.
func (w *Waits) StartEviction(key workload.Key) *Eviction {
	w.mu.Lock()
	defer w.mu.Unlock()
	ev := &Eviction{key: key}
	if e, ok := w.entryOf(key); ok {
		e.making = ev
	}
	return ev
}

// EndEviction records that the API calls of an eviction have ended. It reports whether
// StopForEviction stopped a retry of the workload meanwhile. The caller must then retry the
// workload, because the event of that retry is lost.
//
// EndEviction does not end a later eviction for the same workload: a gang may have lost all members
// and gained others.
func (w *Waits) EndEviction(ev *Eviction) (stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entry(ev.key); e != nil && e.making == ev {
		e.making = nil
		w.tidy(e)
	}
	return ev.stopped
}

// StopForEviction is like Evicting, for a caller that is about to retry a workload. If API calls of
// an eviction are under way, it also records that the retry was stopped; see EndEviction.
func (w *Waits) StopForEviction(key workload.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	if e == nil {
		return false
	}
	if e.making != nil {
		e.making.stopped = true
	}
	return w.evicting(e)
}

// Evicting reports whether an eviction for a workload is under way, or whether the workload backs
// off after one.
func (w *Waits) Evicting(key workload.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	return e != nil && w.evicting(e)
}

// evicting is Evicting for an entry. The caller holds the lock.
func (w *Waits) evicting(e *entry) bool {
	_, backsOff := w.waiting[Backoff][e.key]
	return e.making != nil || backsOff
}

// Backing configures back-off: Initial after the first failure, then twice as long after each
// further failure in a row, up to Max.
type Backing struct{ Initial, Max time.Duration }

// Failed records that an eviction for a workload has failed, and returns the delay before the next
// try. The first failure has no delay.
func (w *Waits) Failed(key workload.Key, b Backing) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, _ := w.entryOf(key)
	e.failures++
	return b.after(e.failures - 1)
}

// after returns the delay after a number of failures: zero after none, Initial after the first, and
// then twice as long after each.
func (b Backing) after(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	// Doubling stops short of overflow: Initial is at most an hour.
	return min(b.Initial<<min(failures-1, 20), b.Max)
}

// Succeeded records that an eviction for a workload did not fail.
func (w *Waits) Succeeded(key workload.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entry(key); e != nil {
		e.failures = 0
		w.tidy(e)
	}
}
