package admission

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/reprieve-dev/reprieve/internal/heap"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Cause is a reason to wait. Victims, evictions and turns are recorded separately: see
// [List.WaitForVictims], [List.StartEviction] and [List.Enter].
type Cause int

const (
	// Reserved means that room is reserved for others. It ends when a reservation is released.
	Reserved Cause = iota
	// Queue means that the queue has no room or is invalid. It ends when the usage of the queue
	// drops, or queues change.
	Queue
	// Access means that the workload must not use its queue, or has none. It ends when queues,
	// namespaces or classes change.
	Access
	// Protection means that the pods in the way are protected. It ends when a class or a queue
	// changes.
	Protection
	// ProtectionEnds means that the pods in the way are protected until a known time.
	ProtectionEnds
	// Pause means that the workload is to be planned again at a time: many changes to it are
	// gathered, or information is about to arrive.
	Pause
	// Retry means that an eviction for the workload has failed or gained nothing. It ends at a
	// time, or with an earlier retry.
	Retry
	// Backoff means that evictions for the workload have failed before. The workload must not be
	// retried before a time.
	Backoff
	// Going means that evicted victims are slow to terminate. It ends at a time, or with the wait
	// for them.
	Going
	// Departure means that a pod is terminating, and others count on its end until a time. The
	// cause belongs to the pod, not to the others.
	Departure
	// Drivers means that the maximum number of drivers runs without workers. It ends when one of
	// them has its workers, ends, or has exceeded its time.
	Drivers

	causes
)

// String returns the name of the cause for log lines.
func (c Cause) String() string {
	return [...]string{"Reserved", "Queue", "Access", "Protection", "ProtectionEnds", "Pause", "Retry", "Backoff", "Going", "Departure", "Drivers"}[c]
}

// Mark is a position in the list's own order of events.
type Mark uint64

// List records why workloads wait, and whose turn it is. Make one with [NewList].
type List struct {
	wanted chan struct{}

	mu      sync.Mutex
	entries map[workload.Key]*entry
	// waiting holds the workloads that wait, by cause.
	waiting [causes]map[workload.Key]*entry
	// events counts the ends of causes, and ended has the count at the last end of each cause.
	events Mark
	ended  [causes]Mark
	// deadlines are the times that workloads wait for. The earliest is on top.
	deadlines heap.Heap[*deadline]
	// byVictim holds the workloads that wait for a pod to terminate, by the pod's UID.
	byVictim map[string]map[workload.Key]*entry
	turns    turns
}

// entry is the state of one workload.
type entry struct {
	key workload.Key
	// until holds the ends of the causes that end at a time; nil for others.
	until [causes]*deadline
	// victims are the pods that must terminate first; nil for none.
	victims *pendingVictims
	// making is the eviction that is under way for the workload; nil for none.
	making *Eviction
	// failures counts the failed evictions in a row.
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

// NewList returns an empty List.
func NewList() *List {
	l := &List{
		wanted: make(chan struct{}, 1), entries: make(map[workload.Key]*entry),
		deadlines: heap.Heap[*deadline]{Before: earlier, Moved: func(d **deadline, at int) { (*d).place = at }},
		byVictim:  make(map[string]map[workload.Key]*entry), turns: newTurns(),
	}
	for c := range l.waiting {
		l.waiting[c] = make(map[workload.Key]*entry)
	}
	return l
}

// Wanted has a token when there may be work before the time that NextLook returned.
func (l *List) Wanted() <-chan struct{} { return l.wanted }

// Look makes Wanted have a token, because the caller has a time of its own to look at.
func (l *List) Look() { l.signal() }

func (l *List) signal() {
	select {
	case l.wanted <- struct{}{}:
	default:
	}
}

// Mark returns the current position. Call it before reading the cluster, and pass the result to
// Wait.
func (l *List) Mark() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// Wait records that a workload waits for the end of a cause. It returns false if the cause has
// ended since the mark. Then the workload does not wait, and can be retried.
func (l *List) Wait(key workload.Key, c Cause, since Mark) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[c] > since {
		return false
	}
	l.await(key, c, time.Time{})
	return true
}

// WaitUntil records that a workload waits for a cause until a time. The time replaces an earlier
// one for the same cause. Either all times have a monotonic clock reading, or none has.
func (l *List) WaitUntil(key workload.Key, c Cause, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.await(key, c, at)
	l.signal()
}

// Gather records a Pause until a time. An earlier end of a Pause stays.
func (l *List) Gather(key workload.Key, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.waiting[Pause][key]; ok && e.until[Pause] != nil && !until.Before(e.until[Pause].at) {
		return
	}
	l.await(key, Pause, until)
	l.signal()
}

// Awaits reports whether any workload waits for a cause.
func (l *List) Awaits(c Cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting[c]) > 0
}

// Waiting returns the workloads that wait for a cause, sorted.
func (l *List) Waiting(c Cause) []workload.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.waiting[c]), workload.Key.Compare)
}

// WaitsFor reports whether a workload waits for a cause.
func (l *List) WaitsFor(key workload.Key, c Cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.waiting[c][key]
	return ok
}

// Resolve ends the wait of a workload for some causes.
func (l *List) Resolve(key workload.Key, resolved ...Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if !ok {
		return
	}
	for _, c := range resolved {
		l.resolve(e, c)
	}
	l.tidy(e)
}

// End records that a cause has ended. It returns the workloads that waited for it, and ends their
// waits.
func (l *List) End(c Cause) []workload.Key {
	return l.EndFor(c, func(workload.Key) bool { return true })
}

// EndFor is like End, but only for workloads that the function concerns selects. It calls the
// function without a lock held. A Wait with an earlier mark returns false, even for other
// workloads.
func (l *List) EndFor(c Cause, concerns func(workload.Key) bool) []workload.Key {
	l.mu.Lock()
	l.events++
	l.ended[c] = l.events
	ended := slices.SortedFunc(maps.Keys(l.waiting[c]), workload.Key.Compare)
	l.mu.Unlock()
	ended = slices.DeleteFunc(ended, func(key workload.Key) bool { return !concerns(key) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range ended {
		if e, ok := l.entries[key]; ok {
			l.resolve(e, c)
			l.tidy(e)
		}
	}
	return ended
}

// Due is a workload with a cause whose time has come.
type Due struct {
	Key   workload.Key
	Cause Cause
}

// Due returns the workloads whose times have come, the earliest first, and ends these waits.
func (l *List) Due(now time.Time) []Due {
	l.mu.Lock()
	defer l.mu.Unlock()
	var due []Due
	for len(l.deadlines.Items) > 0 && !l.deadlines.Items[0].at.After(now) {
		d := l.deadlines.Items[0]
		due = append(due, Due{d.entry.key, d.cause})
		l.resolve(d.entry, d.cause)
		l.tidy(d.entry)
	}
	return due
}

// NextLook returns the time of the next deadline or end of a lull; false for none.
func (l *List) NextLook(now time.Time) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.turns.lullEnds(now)
	if len(l.deadlines.Items) > 0 {
		if at := l.deadlines.Items[0].at; next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, !next.IsZero()
}

// Placed records that a workload has its place. It ends all waits of the workload, and the next
// turn can begin. If the workload cannot take its place and comes again, it needs no other turn.
func (l *List) Placed(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.freely.forget(key)
	l.turns.cameToSomething(key)
	if l.endTurn(key) {
		l.turns.foundPlace()
	}
	l.turns.keep(key)
	l.drop(key)
}

// Forget drops all state of a workload that runs or is gone.
func (l *List) Forget(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns.forget(key) {
		l.signal()
	}
	l.drop(key)
}

// drop ends all waits of a workload.
func (l *List) drop(key workload.Key) {
	e, ok := l.entries[key]
	if !ok {
		return
	}
	for c := range causes {
		l.resolve(e, c)
	}
	l.dropVictims(e)
	delete(l.entries, key)
}

// Len returns the number of entries and turns, for tests that look for leaks.
func (l *List) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries) + l.turns.len()
}

func (l *List) entryOf(key workload.Key) *entry {
	e, ok := l.entries[key]
	if !ok {
		e = &entry{key: key}
		l.entries[key] = e
	}
	return e
}

func (l *List) await(key workload.Key, c Cause, at time.Time) {
	e := l.entryOf(key)
	l.resolve(e, c)
	l.waiting[c][key] = e
	if !at.IsZero() {
		e.until[c] = &deadline{at: at, entry: e, cause: c}
		l.deadlines.Push(e.until[c])
	}
}

func (l *List) resolve(e *entry, c Cause) {
	if d := e.until[c]; d != nil {
		l.deadlines.Remove(d.place)
		e.until[c] = nil
	}
	delete(l.waiting[c], e.key)
}

// tidy drops an entry that is empty.
func (l *List) tidy(e *entry) {
	if e.victims != nil || e.making != nil || e.failures > 0 {
		return
	}
	for c := range causes {
		if _, ok := l.waiting[c][e.key]; ok {
			return
		}
	}
	delete(l.entries, e.key)
}
