package engine

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Eviction is an eviction for a workload. Its API calls are under way.
type Eviction struct {
	key workload.Key
	// stopped is true if StopForEviction stopped a retry of the workload during these calls.
	stopped bool
}

// StartEviction records that API calls begin that evict victims for a workload.
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
// StopForEviction stopped a retry of the workload during the calls. If so, the caller must retry
// the workload, because no other event will.
//
// EndEviction has no effect on a newer eviction for the same workload. There may be one if a gang
// lost all members during the calls and then got new ones.
func (w *Waits) EndEviction(ev *Eviction) (stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entry(ev.key); e != nil && e.making == ev {
		e.making = nil
		w.tidy(e)
	}
	return ev.stopped
}

// StopForEviction reports whether a retry of a workload must wait; see [Waits.Evicting]. If API
// calls of an eviction are under way, it also records that a retry was stopped, so that EndEviction
// reports it.
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
// off after a failed one.
func (w *Waits) Evicting(key workload.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	return e != nil && w.evicting(e)
}

// evicting is [Waits.Evicting] for an entry. The caller holds the lock.
func (w *Waits) evicting(e *entry) bool {
	_, backsOff := w.waiting[Backoff][e.key]
	return e.making != nil || backsOff
}

// Backing configures an exponential back-off. The delay is Initial after the first failure, doubles
// with each further failure in a row, and is at most Max.
type Backing struct{ Initial, Max time.Duration }

// Failed records that an eviction for a workload has failed, and returns the delay before the next
// attempt. The delay is zero after the first failure.
func (w *Waits) Failed(key workload.Key, b Backing) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, _ := w.entryOf(key)
	e.failures++
	return b.after(e.failures - 1)
}

// after returns the delay after a number of failures: zero after none, Initial after the first, and
// twice the last delay after each further one.
func (b Backing) after(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	// The shift is limited to 20, so that the delay cannot overflow: Initial is at most an hour.
	return min(b.Initial<<min(failures-1, 20), b.Max)
}

// Succeeded records that an eviction for a workload has succeeded.
func (w *Waits) Succeeded(key workload.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entry(key); e != nil {
		e.failures = 0
		w.tidy(e)
	}
}
