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

// Cause is something that a workload waits for the end of. Victims, evictions and turns are kept beside: see
// [List.WaitForVictims], [List.StartEviction] and [List.Enter].
type Cause int

const (
	// Reserved: room is reserved for others. It ends when some of that is given up.
	Reserved Cause = iota
	// Queue: the queue leaves no room, or cannot be used. It ends when the queue has less, or queues change.
	Queue
	// Access: the workload may not be in its queue, or is in none. It ends when queues, namespaces or classes change.
	Access
	// Protection: what protects the pods in the way, until it is lifted: a class or a queue changes.
	Protection
	// ProtectionEnds: what protects the pods in the way ends at a known moment.
	ProtectionEnds
	// Pause: the workload is to be looked at again at a moment: changes to it come in numbers and are gathered, or
	// something is about to be known.
	Pause
	// Retry: an eviction for the workload has failed, or gained nothing. It is to be tried again at a moment, if it has not been by then.
	Retry
	// Backoff: evictions for the workload have failed before. It is not to be tried before the moment comes.
	Backoff
	// Going: victims that have been told to go take long. It ends at a moment, or with the wait for them.
	Going
	// Departure: a pod is on its way out, and others count on it to go until a moment. It is the pod's own cause, not theirs.
	Departure
	// Drivers: the maximum number of drivers runs without workers. It ends when one of them has its
	// workers, ends, or has exceeded its time.
	Drivers

	causes
)

// String names the cause for log lines.
func (c Cause) String() string {
	return [...]string{"Reserved", "Queue", "Access", "Protection", "ProtectionEnds", "Pause", "Retry", "Backoff", "Going", "Departure", "Drivers"}[c]
}

// Mark is a moment in the list's own order of events.
type Mark uint64

// List keeps why workloads wait, and whose turn it is. Make one with [NewList].
type List struct {
	wanted chan struct{}

	mu      sync.Mutex
	entries map[workload.Key]*entry
	// waiting are the workloads that wait for a cause.
	waiting [causes]map[workload.Key]*entry
	// events counts what has ended, and ended has the count of the last end of each cause.
	events Mark
	ended  [causes]Mark
	// deadlines are the moments that workloads wait for, the earliest on top.
	deadlines heap.Heap[*deadline]
	// byVictim are the workloads that wait for a pod, by its UID, to go.
	byVictim map[string]map[workload.Key]*entry
	turns    turns
}

// entry is what is known of one workload.
type entry struct {
	key workload.Key
	// until is when a cause ends that has a moment; nil for others.
	until [causes]*deadline
	// victims are the pods that have to go first; nil for none.
	victims *pendingVictims
	// making is the eviction that is under way for the workload; nil for none.
	making *Eviction
	// failures counts evictions that have failed in a row.
	failures int
}

// deadline is a moment that a workload waits for.
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

// Wanted has a token when there may be something to do before the moment that NextLook named.
func (l *List) Wanted() <-chan struct{} { return l.wanted }

func (l *List) signal() {
	select {
	case l.wanted <- struct{}{}:
	default:
	}
}

// Mark is the moment now. Take it before looking at the cluster, and hand it to Wait.
func (l *List) Mark() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// Wait has a workload wait for the end of a cause. It returns false where the cause has ended since the mark: the
// workload does not wait, and can be tried again.
func (l *List) Wait(key workload.Key, c Cause, since Mark) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[c] > since {
		return false
	}
	l.await(key, c, time.Time{})
	return true
}

// WaitUntil has a workload wait for a cause that ends at a moment, in place of the moment that it waited for because of
// it before. All moments have to be read from one clock: either all of them have a monotonic reading, or none.
func (l *List) WaitUntil(key workload.Key, c Cause, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.await(key, c, at)
	l.signal()
}

// Gather has a workload looked at again at a moment, or before that if it waits for an earlier one already.
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

// Resolve has a workload wait for some causes no more.
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

// End records that a cause has ended, and returns the workloads that waited for it. They do so no more.
func (l *List) End(c Cause) []workload.Key {
	return l.EndFor(c, func(workload.Key) bool { return true })
}

// EndFor is End for those of the workloads that it concerns, which is asked without a lock held. Those that are about to wait look again,
// whether it concerns them or not.
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

// Due is a workload for which a moment has come that it waited for, and why it waited for it.
type Due struct {
	Key   workload.Key
	Cause Cause
}

// Due returns the workloads for which a moment has come that they waited for, the earliest first. They wait for it no
// more.
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

// NextLook is when the list has something to say although nothing happens; false for never.
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

// Placed records that a workload has its place: it waits for nothing, and the next turn begins. It needs no other turn
// if it comes again because it could not take its place.
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

// Forget drops all that is known of a workload: it runs, or is no more.
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

// Len counts the workloads that something is known of, for tests that look for leaks.
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

// tidy drops an entry that says nothing any more.
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
