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
	// Reserved: room is reserved for others. The cause ends when a reservation is released.
	Reserved Cause = iota
	// Queue: the queue has no room or is invalid. The cause ends when the usage of the queue drops,
	// or when queues change.
	Queue
	// Access: the workload must not use its queue, or has none. The cause ends when queues,
	// namespaces or classes change.
	Access
	// Protection: the pods that the workload would evict are protected. The cause ends when a class
	// or a queue changes.
	Protection
	// ProtectionEnds: the pods that the workload would evict are protected until a known time.
	ProtectionEnds
	// Pause: the workload is planned again at a known time. Until then, further changes or more
	// information may arrive.
	Pause
	// RetryDue: an eviction for the workload has failed or had no effect. The cause ends at a time,
	// or with an earlier retry.
	RetryDue
	// Backoff: evictions for the workload have failed before. The workload must not be retried
	// before a time.
	Backoff
	// Going: evicted victims are slow to terminate. The cause ends at a time, or with the wait for
	// the victims.
	Going
	// Departure: a pod is terminating, and workloads expect its end by a time. The cause belongs to
	// the pod, not to these workloads.
	Departure
	// Drivers: the maximum number of drivers run without workers. The cause ends when one of these
	// drivers has its workers, ends, or has exceeded its time.
	Drivers

	causes
)

// String returns the name of the cause for log lines.
func (c Cause) String() string {
	return [...]string{"Reserved", "Queue", "Access", "Protection", "ProtectionEnds", "Pause", "RetryDue", "Backoff", "Going", "Departure", "Drivers"}[c]
}

// Mark is a position in the order of the ends of causes.
type Mark uint64

// Waits has the causes of waiting of workloads, with the victims that they wait for and their
// evictions under way. It is a part of an [Engine].
type Waits struct {
	*store
	// signal informs the main loop of an earlier deadline.
	signal func()
	// waiting holds the workloads that wait, by cause.
	waiting [causes]map[workload.Key]*entry
	// events is the number of ended causes so far. ended has the value of events at the last end of
	// each cause.
	events Mark
	ended  [causes]Mark
	// deadlines has the times that workloads wait for, the earliest on top.
	deadlines heap.Heap[*deadline]
	// byVictim holds the workloads that wait for a pod to terminate, by the pod's UID.
	byVictim map[string]map[workload.Key]*entry
}

// entry has the causes of one workload.
type entry struct {
	key workload.Key
	// until has the times when causes end; nil without such causes.
	until [causes]*deadline
	// victims are the pods that must terminate before the workload is retried; nil for none.
	victims *pendingVictims
	// making is the eviction under way for the workload; nil for none.
	making *Eviction
	// failures is the number of evictions in a row that failed.
	failures int
}

// deadline is a time that a workload waits for.
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

// Mark returns the current position. Call it before reading the cluster, and pass the result to
// Wait.
func (w *Waits) Mark() Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// Wait records that a workload waits for the end of a cause. If the cause has ended since the mark,
// Wait returns false: the workload does not wait, and can be retried.
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
// time for the same cause. Either all times have a monotonic clock reading, or none of them does.
func (w *Waits) WaitUntil(key workload.Key, c Cause, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.await(key, c, at)
	w.signal()
}

// Gather records a Pause until a time, so that several changes lead to one retry. An earlier end of
// a Pause stays.
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

// Resolve ends the wait of a workload for some causes.
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

// end ends a cause, and returns the workloads that waited for it. The caller holds the lock.
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

// resolveAll ends the waits of workloads for a cause. The caller holds the lock.
func (w *Waits) resolveAll(keys []workload.Key, c Cause) {
	for _, key := range keys {
		if e := w.entry(key); e != nil {
			w.resolve(e, c)
			w.tidy(e)
		}
	}
}

// EndFor records that a cause has ended for the workloads that the function concerns selects. It
// returns the workloads that waited for it, sorted, and ends their waits. EndFor calls the function
// without a lock held. Afterwards, a Wait with an earlier mark returns false for all workloads.
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

// expired is a wait whose time has come.
type expired struct {
	key   workload.Key
	cause Cause
}

// due returns the waits whose times have come, the earliest first, and ends them. The caller holds
// the lock.
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

// Len returns the number of workloads with causes, for tests that look for leaks.
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

// entry returns the causes of a workload; nil for none.
func (w *Waits) entry(key workload.Key) *entry {
	if r := w.records[key]; r != nil {
		return r.waits
	}
	return nil
}

// entryOf returns the causes of a workload, and adds an entry if there is none. For a workload that
// is not present, ok is false and changes of the entry have no effect.
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

// remove drops the causes of a workload.
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

// tidy drops an entry that is empty.
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
