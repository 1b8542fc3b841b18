package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/heap"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Cause is a reason to wait. Victims, evictions and turns are recorded separately: see
// [Waits.WaitForVictims], [Waits.StartEviction] and [admission.List].
type Cause int

const (
	// Reserved: room is reserved for other workloads. The cause ends when a reservation is
	// released.
	Reserved Cause = iota
	// Queue: the queue has no room left, or its configuration is invalid. The cause ends when the
	// usage of the queue drops, or when queues change.
	Queue
	// Access: the workload must not use its queue, or has no queue. The cause ends when queues,
	// namespaces or classes change.
	Access
	// Protection: policy protects the potential victims. The cause ends when a class or a queue
	// changes.
	Protection
	// ProtectionEnds: policy protects the potential victims until a known time.
	ProtectionEnds
	// Pause: the scheduler waits for further changes or more information, and plans the workload
	// again at a known time.
	Pause
	// RetryDue: an eviction for the workload failed or had no effect. The cause ends at a known
	// time, or with an earlier retry.
	RetryDue
	// Backoff: earlier evictions for the workload have failed. The workload must not be retried
	// before a known time.
	Backoff
	// Going: the victims are evicted but have not terminated yet. The cause ends at a known time,
	// or when the workload no longer waits for the victims.
	Going
	// Departure: a terminating pod should be gone by a known time. The cause is recorded for the
	// pod itself, not for the workloads that wait for the pod.
	Departure
	// Drivers: the maximum number of drivers without workers have a place. The cause ends when one
	// of these drivers gets its workers, ends, or exceeds its time.
	Drivers
	// Nodes: all nodes together are too small, even if no other pod ran on them. The cause ends
	// with the next attempt. A change of a node or of the workload begins that attempt.
	Nodes

	causes
)

// String returns the name of the cause for log lines.
func (c Cause) String() string {
	return [...]string{"Reserved", "Queue", "Access", "Protection", "ProtectionEnds", "Pause", "RetryDue", "Backoff", "Going", "Departure", "Drivers", "Nodes"}[c]
}

// Mark counts the causes that have ended so far. A larger Mark is later.
type Mark uint64

// Waits has the reasons why workloads wait, their victims, and the evictions that are under way for
// them. It is a part of an [Engine].
type Waits struct {
	*store
	// signal informs the main loop that a deadline may be earlier than before.
	signal func()
	// waiting has, for each cause, the workloads that wait for its end.
	waiting [causes]map[workload.Key]*entry
	// events counts the causes that have ended so far. ended has, for each cause, the value of
	// events when the cause last ended.
	events Mark
	ended  [causes]Mark
	// deadlines has the times when waits end, the earliest on top.
	deadlines heap.Heap[*deadline]
	// byVictim maps the UID of a terminating pod to the workloads that wait for it.
	byVictim map[string]map[workload.Key]*entry
}

// entry has the causes of one workload.
type entry struct {
	key workload.Key
	// until has, for each cause, the time when the wait ends; nil if the wait has no such time.
	until [causes]*deadline
	// victims has the pods that must terminate before the workload is retried; nil for none.
	victims *pendingVictims
	// making is the eviction that is under way for the workload; nil for none.
	making *Eviction
	// failures is the number of evictions in a row that failed.
	failures int
}

// deadline is the time when a workload's wait for a cause ends. place is its position in the heap.
type deadline struct {
	at    time.Time
	entry *entry
	cause Cause
	place int
}

func earlier(a, b **deadline) bool {
	x, y := *a, *b
	return cmp.Or(x.at.Compare(y.at), x.entry.key.Compare(y.entry.key), int(x.cause)-int(y.cause)) < 0
}

// newWaits returns Waits without causes. The function signal must not block.
func newWaits(s *store, signal func()) *Waits {
	w := &Waits{
		store: s, signal: signal,
		deadlines: heap.Heap[*deadline]{Before: earlier, Moved: func(d **deadline, at int) { (*d).place = at }},
		byVictim:  make(map[string]map[workload.Key]*entry),
	}
	for c := range w.waiting {
		w.waiting[c] = make(map[workload.Key]*entry)
	}
	return w
}

// Mark returns the current Mark. Call it before reading the state of the cluster, and pass the
// result to [Waits.Wait].
func (w *Waits) Mark() Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// HasEnded reports whether a cause has ended since the mark.
func (w *Waits) HasEnded(c Cause, since Mark) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended[c] > since
}

// Wait records that a workload waits for the end of a cause. If the cause has ended since the mark,
// Wait records nothing and returns false. The caller can then retry the workload.
func (w *Waits) Wait(key workload.Key, c Cause, since Mark) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended[c] > since {
		return false
	}
	w.await(key, c, time.Time{})
	return true
}

// WaitUntil records that a workload waits for a cause until a time. This time replaces an earlier
// one for the same workload and cause. Either all callers must pass times with a monotonic clock
// reading, or all must pass times without one.
func (w *Waits) WaitUntil(key workload.Key, c Cause, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.await(key, c, at)
	w.signal()
}

// Gather records a Pause until a time, so that several changes lead to one retry. If the workload
// has a Pause that ends earlier, Gather changes nothing.
func (w *Waits) Gather(key workload.Key, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.waiting[Pause][key]; ok && e.until[Pause] != nil && !until.Before(e.until[Pause].at) {
		return
	}
	w.await(key, Pause, until)
	w.signal()
}

// Awaits reports whether any workload waits for a cause.
func (w *Waits) Awaits(c Cause) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting[c]) > 0
}

// Waiting returns the workloads that wait for a cause, sorted.
func (w *Waits) Waiting(c Cause) []workload.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.waiting[c]), workload.Key.Compare)
}

// WaitsFor reports whether a workload waits for a cause.
func (w *Waits) WaitsFor(key workload.Key, c Cause) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.waiting[c][key]
	return ok
}

// Resolve ends the waits of a workload for the given causes.
func (w *Waits) Resolve(key workload.Key, resolved ...Cause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	if e == nil {
		return
	}
	for _, c := range resolved {
		w.resolve(e, c)
	}
	w.tidy(e)
}

// end records that a cause has ended, and ends all waits for it. It returns the workloads that
// waited, sorted. The caller holds the lock.
func (w *Waits) end(c Cause) []workload.Key {
	ended := w.endsNow(c)
	w.resolveAll(ended, c)
	return ended
}

// endsNow records that a cause has ended, and returns the workloads that wait for it, sorted. The
// caller holds the lock.
func (w *Waits) endsNow(c Cause) []workload.Key {
	w.events++
	w.ended[c] = w.events
	return slices.SortedFunc(maps.Keys(w.waiting[c]), workload.Key.Compare)
}

// resolveAll ends the waits of the given workloads for a cause. The caller holds the lock.
func (w *Waits) resolveAll(keys []workload.Key, c Cause) {
	for _, key := range keys {
		if e := w.entry(key); e != nil {
			w.resolve(e, c)
			w.tidy(e)
		}
	}
}

// EndFor records that a cause has ended for the workloads that the function concerns selects. It
// ends their waits for the cause, and returns the workloads that waited, sorted. EndFor holds no
// lock while it calls concerns. Afterwards, [Waits.Wait] with an earlier mark returns false for any
// workload.
func (w *Waits) EndFor(c Cause, concerns func(workload.Key) bool) []workload.Key {
	w.mu.Lock()
	ended := w.endsNow(c)
	w.mu.Unlock()
	ended = slices.DeleteFunc(ended, func(key workload.Key) bool { return !concerns(key) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolveAll(ended, c)
	return ended
}

// expired is a wait whose deadline has passed.
type expired struct {
	key   workload.Key
	cause Cause
}

// due ends the waits whose deadlines have passed, and returns them, the earliest first. The caller
// holds the lock.
func (w *Waits) due(now time.Time) []expired {
	var due []expired
	for len(w.deadlines.Items) > 0 && !w.deadlines.Items[0].at.After(now) {
		d := w.deadlines.Items[0]
		due = append(due, expired{d.entry.key, d.cause})
		w.resolve(d.entry, d.cause)
		w.tidy(d.entry)
	}
	return due
}

// nextDeadline returns the time of the next deadline; false for none.
func (w *Waits) nextDeadline() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.deadlines.Items) == 0 {
		return time.Time{}, false
	}
	return w.deadlines.Items[0].at, true
}

// dropEntry ends all waits of a workload. The caller holds the lock.
func (w *Waits) dropEntry(key workload.Key) {
	e := w.entry(key)
	if e == nil {
		return
	}
	for c := range causes {
		w.resolve(e, c)
	}
	w.dropVictims(e)
	w.remove(key)
}

// Len returns the number of workloads that wait, for tests that look for leaks.
func (w *Waits) Len() (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.waits != nil {
			count++
		}
	}
	return count
}

// entry returns the entry of a workload; nil for none.
func (w *Waits) entry(key workload.Key) *entry {
	if r := w.records[key]; r != nil {
		return r.waits
	}
	return nil
}

// entryOf returns the entry of a workload, and creates the entry if there is none. If the workload
// is not present, ok is false, and the returned entry is not stored.
func (w *Waits) entryOf(key workload.Key) (e *entry, ok bool) {
	r := w.records[key]
	if r == nil || !r.present {
		return &entry{key: key}, false
	}
	if r.waits == nil {
		r.waits = &entry{key: key}
	}
	return r.waits, true
}

// remove deletes the entry of a workload.
func (w *Waits) remove(key workload.Key) {
	if r := w.records[key]; r != nil {
		r.waits = nil
		w.store.tidy(key)
	}
}

func (w *Waits) await(key workload.Key, c Cause, at time.Time) {
	e, ok := w.entryOf(key)
	if !ok {
		return
	}
	w.resolve(e, c)
	w.waiting[c][key] = e
	if !at.IsZero() {
		e.until[c] = &deadline{at: at, entry: e, cause: c}
		w.deadlines.Push(e.until[c])
	}
}

func (w *Waits) resolve(e *entry, c Cause) {
	if d := e.until[c]; d != nil {
		w.deadlines.Remove(d.place)
		e.until[c] = nil
	}
	delete(w.waiting[c], e.key)
}

// tidy deletes an entry without causes, victims, evictions and failures.
func (w *Waits) tidy(e *entry) {
	if e.victims != nil || e.making != nil || e.failures > 0 {
		return
	}
	for c := range causes {
		if _, ok := w.waiting[c][e.key]; ok {
			return
		}
	}
	w.remove(e.key)
}
