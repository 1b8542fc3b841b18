package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Eviction is an eviction for a workload whose API calls are under way.
type Eviction struct {
	key workload.Key
	// stopped is true if the workload would have been retried meanwhile.
	stopped bool
}

// StartEviction records that API calls to evict victims for a workload are under way.
func (l *List) StartEviction(key workload.Key) *Eviction {
	l.mu.Lock()
	defer l.mu.Unlock()
	ev := &Eviction{key: key}
	l.entryOf(key).making = ev
	return ev
}

// EndEviction records that the API calls of an eviction have ended. A later eviction for the same
// workload goes on: a gang may have lost all members and gained others.
//
// It reports whether StopForEviction stopped a retry meanwhile. The caller must then retry the
// workload, because the event of that retry is lost.
func (l *List) EndEviction(ev *Eviction) (stopped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[ev.key]; ok && e.making == ev {
		e.making = nil
		l.tidy(e)
	}
	return ev.stopped
}

// StopForEviction is like Evicting, for a workload that is to be retried now. It records that the
// retry was stopped; see EndEviction.
func (l *List) StopForEviction(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if !ok {
		return false
	}
	if e.making != nil {
		e.making.stopped = true
	}
	return l.evicting(e)
}

// Evicting reports whether an eviction for a workload is under way, or the workload backs off from
// one.
func (l *List) Evicting(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	return ok && l.evicting(e)
}

// evicting is Evicting for an entry. The caller holds the lock.
func (l *List) evicting(e *entry) bool {
	_, backsOff := l.waiting[Backoff][e.key]
	return e.making != nil || backsOff
}

// Backing is how long to back off after failures in a row: Initial, then twice as long each time,
// up to Max.
type Backing struct{ Initial, Max time.Duration }

// Failed records that an eviction for a workload has failed, and returns the delay before the next
// try. The first failure has no delay.
func (l *List) Failed(key workload.Key, b Backing) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entryOf(key)
	e.failures++
	return b.after(e.failures - 1)
}

// after returns the delay after a number of failures: none after 0, Initial after the first, and
// then twice as long each time.
func (b Backing) after(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	// Doubling stops short of overflow: Initial is at most an hour.
	return min(b.Initial<<min(failures-1, 20), b.Max)
}

// Succeeded records that an eviction for a workload has not failed.
func (l *List) Succeeded(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		e.failures = 0
		l.tidy(e)
	}
}
