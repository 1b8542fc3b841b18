package eviction

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// memory is the time that this process relies on its own actions rather than on its caches, which
// may be late.
const memory = time.Minute

// ledger holds the facts about disrupted groups that the API does not show. These are the groups
// with an execution, the results of calls for their pods, and the pods to withdraw. It is safe for
// concurrent use.
type ledger struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// kept is true if a Finisher reads the entries and drops them later.
	kept bool
}

// entry holds the facts about one group. The sets hold the UIDs of pods.
type entry struct {
	// running counts the evictions of this process that work on the group.
	running int
	// seen holds pods that the scheduler has seen. If its informer no longer has such a pod, the
	// pod is gone.
	seen sets.Set[types.UID]
	// accepted holds pods that were deleted and may still terminate. absent holds pods that were
	// found gone.
	accepted, absent sets.Set[types.UID]
	// withdrawn holds pods on the list that must stay, because the preemption was given up.
	withdrawn sets.Set[types.UID]
	// spared holds pods that were removed from the list. A reader's cache may still list them.
	spared sets.Set[types.UID]
	// unsure is the time of the last failed delete that may still succeed.
	unsure time.Time
	used   time.Time
}

// at changes an entry. It creates an empty entry if there is none.
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

// begin records that an eviction of this process works on a group.
func (l *ledger) begin(key types.NamespacedName) {
	l.at(key, func(e *entry) { e.running++ })
}

// end records that an eviction has finished its work on a group.
func (l *ledger) end(key types.NamespacedName) {
	l.at(key, func(e *entry) { e.running-- })
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.kept && l.entries[key].running == 0 {
		delete(l.entries, key)
	}
}

// note records the result of the removal of one of the group's pods.
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

// withdrawn returns the pods to withdraw that no later order has listed.
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

// prune drops the entry of a group that was not used for longer than memory. It reports whether an
// entry remains.
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

// drop drops the entry of a group that does not exist any more.
func (l *ledger) drop(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok && e.running == 0 {
		delete(l.entries, key)
	}
}

// keep makes the ledger preserve the entries of ended executions, for a Finisher that reads and
// drops them.
func (l *ledger) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = true
}
