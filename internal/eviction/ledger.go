package eviction

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// memory is how long what this process has done itself counts for more than what its caches say, which lag behind.
const memory = time.Minute

// ledger is what this process knows of disrupted groups beyond what the API says: which are being worked on,
// what has come of the calls about their pods, and what is to be taken back. It is safe for concurrent use.
type ledger struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// kept is true where a Finisher reads the entries, and drops them in the end.
	kept bool
}

// entry is what is known of one group. The sets are of the UIDs of pods.
type entry struct {
	// running counts the evictions of this process that are under way.
	running int
	// seen have been seen by the scheduler: when it does not see one any more, that one has gone.
	seen sets.Set[types.UID]
	// accepted have been deleted, and may still be on their way out; absent have been found gone.
	accepted, absent sets.Set[types.UID]
	// withdrawn are on the list and stay, because the preemption was given up.
	withdrawn sets.Set[types.UID]
	// spared have been taken off the list, where a reader's cache may go on to have them.
	spared sets.Set[types.UID]
	// unsure is when a delete failed last that may come through all the same.
	unsure time.Time
	used   time.Time
}

// at changes an entry, which starts empty.
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

// begin records that an eviction of this process works on a group from now on.
func (l *ledger) begin(key types.NamespacedName) {
	l.at(key, func(e *entry) { e.running++ })
}

// end records that an eviction has done with a group.
func (l *ledger) end(key types.NamespacedName) {
	l.at(key, func(e *entry) { e.running-- })
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.kept && l.entries[key].running == 0 {
		delete(l.entries, key)
	}
}

// note records what has become of a pod of a group.
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

// withdrawn are the pods whose intent is to be taken back, and that no later order has listed.
func (l *ledger) withdrawn(key types.NamespacedName) sets.Set[types.UID] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		return e.withdrawn.Clone()
	}
	return nil
}

// read returns a copy of what is known of a group; nil where there is nothing.
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

// prune forgets a group that nothing has happened to for a while.
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

// drop forgets a group that does not exist any more.
func (l *ledger) drop(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok && e.running == 0 {
		delete(l.entries, key)
	}
}

// keep has entries kept for a Finisher.
func (l *ledger) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = true
}
