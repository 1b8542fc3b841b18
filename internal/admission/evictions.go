package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Eviction is one that is under way for a workload: its calls are being made.
type Eviction struct {
	key workload.Key
	// stopped is set when the workload would have been tried meanwhile.
	stopped bool
}

// StartEviction records that calls are under way that make room for a workload.
func (l *List) StartEviction(key workload.Key) *Eviction {
	l.mu.Lock()
	defer l.mu.Unlock()
	ev := &Eviction{key: key}
	l.entryOf(key).making = ev
	return ev
}

// EndEviction records that the calls of an eviction are over. All members of a gang may have gone since, and others have
// come, for which another eviction is under way: that one goes on. It reports whether the workload has been stopped
// meanwhile: what happened then is forgotten, unless it is tried again.
func (l *List) EndEviction(ev *Eviction) (stopped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[ev.key]; ok && e.making == ev {
		e.making = nil
		l.tidy(e)
	}
	return ev.stopped
}

// StopForEviction is Evicting for a workload that is to be tried now, and remembers that it was to be.
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

// Evicting reports whether room is being made for a workload: calls are under way, or are backed off from.
func (l *List) Evicting(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	return ok && l.evicting(e)
}

// evicting wants the lock.
func (l *List) evicting(e *entry) bool {
	_, backsOff := l.waiting[Backoff][e.key]
	return e.making != nil || backsOff
}

// Backing says how long to back off after failures in a row: for Initial, then twice as long each time, at most for Max.
type Backing struct{ Initial, Max time.Duration }

// Failed records that an eviction for a workload has failed, and says how long to wait before another try: not at all the
// first time.
func (l *List) Failed(key workload.Key, b Backing) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entryOf(key)
	e.failures++
	return b.after(e.failures - 1)
}

// after returns the delay after a number of failures: none after 0, Initial after the first, and then twice
// as long each time.
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
