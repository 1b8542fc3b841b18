package eviction

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// memory is the time that this process relies on the record of its own actions. Its caches may be
// late by up to this time.
const memory = time.Minute

// ledger has the facts about disrupted groups that the API does not show. These are the executions
// that work on a group, the results of calls for its pods, and the pods to withdraw. It is safe for
// concurrent use.
type ledger struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// kept is true if a Finisher uses the entries and deletes them. Without one, the entries are
	// deleted after each execution.
	kept bool
}

// entry has the facts about one group. Its sets contain UIDs of pods.
type entry struct {
	// running is the number of executions in this process that work on the group.
	running int
	// seen has the pods that the scheduler's informer has shown. If the informer no longer has such
	// a pod, the pod no longer exists.
	seen sets.Set[types.UID]
	// accepted has the pods whose delete was accepted. They may still be terminating. absent has
	// the pods that did not exist when they were to be deleted.
	accepted, absent sets.Set[types.UID]
	// withdrawn has the pods in the intent that must stay, because the preemption was given up.
	withdrawn sets.Set[types.UID]
	// spared has the pods that were removed from the intent, although a cache may still show them
	// there.
	spared sets.Set[types.UID]
	// unsure is the time of the last delete call that failed but may still succeed.
	unsure time.Time
	used   time.Time
}

// at changes the entry of a group, and creates the entry if there is none.
func (l *ledger) at(key types.NamespacedName, change func(*entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if !ok {
		e = &entry{
			seen: sets.New[types.UID](), accepted: sets.New[types.UID](),
			absent: sets.New[types.UID](), withdrawn: sets.New[types.UID](), spared: sets.New[types.UID](),
		}
		if l.entries == nil {
			l.entries = make(map[types.NamespacedName]*entry)
		}
		l.entries[key] = e
	}
	change(e)
	e.used = l.clock.Now()
}

// begin records that an execution of this process works on a group.
func (l *ledger) begin(key types.NamespacedName) {
	l.at(key, func(e *entry) { e.running++ })
}

// end records that an execution has finished its work on a group.
func (l *ledger) end(key types.NamespacedName) {
	l.at(key, func(e *entry) { e.running-- })
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.kept && l.entries[key].running == 0 {
		delete(l.entries, key)
	}
}

// note records the result of the removal of a pod of the group.
func (l *ledger) note(key types.NamespacedName, uid types.UID, r removal) {
	l.at(key, func(e *entry) {
		switch r {
		case accepted:
			e.accepted.Insert(uid)
		case absent:
			e.absent.Insert(uid)
		case uncertain:
			e.unsure = l.clock.Now()
		case untouched:
		}
	})
}

// withdrawn returns the pods to withdraw from the intent of a group.
func (l *ledger) withdrawn(key types.NamespacedName) sets.Set[types.UID] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		return e.withdrawn.Clone()
	}
	return nil
}

// read returns a copy of a group's entry, or nil if there is none.
func (l *ledger) read(key types.NamespacedName) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if !ok {
		return nil
	}
	return &entry{
		running: e.running, seen: e.seen.Clone(), accepted: e.accepted.Clone(),
		absent: e.absent.Clone(), withdrawn: e.withdrawn.Clone(), spared: e.spared.Clone(), unsure: e.unsure, used: e.used,
	}
}

// prune deletes the entry of a group if nothing has used it for longer than memory. It reports
// whether there is still an entry.
func (l *ledger) prune(key types.NamespacedName) (left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if ok && e.running == 0 && len(e.withdrawn) == 0 && l.clock.Since(e.used) > memory {
		delete(l.entries, key)
		ok = false
	}
	return ok
}

// drop deletes the entry of a group that does not exist any more.
func (l *ledger) drop(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok && e.running == 0 {
		delete(l.entries, key)
	}
}

// keep makes the ledger keep the entries after executions have ended. Call it if a Finisher uses
// the ledger.
func (l *ledger) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = true
}
