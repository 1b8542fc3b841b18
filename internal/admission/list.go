package admission

import (
	"sync"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// List holds queued work, and decides whose turn it is. Make one with [NewList].
type List struct {
	// signal is called when a turn may begin. present reports whether a workload is present in the
	// engine.
	signal  func()
	present func(workload.Key) bool

	mu    sync.Mutex
	turns turns
}

// NewList returns an empty List. It calls signal when [List.Admit] may have work. Only
// workloads that are present enter the List. Both functions are called with the lock held, so they
// must not call the List.
func NewList(signal func(), present func(workload.Key) bool) *List {
	return &List{signal: signal, present: present, turns: newTurns()}
}

// Placed records that a workload has its place, so the next turn can begin. If the place is lost
// and the workload comes again, it needs no other turn.
func (l *List) Placed(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.freely.forget(key)
	l.turns.cameToSomething(key)
	if l.endTurn(key) {
		l.turns.foundPlace()
	}
	l.turns.keep(key)
}

// Forget drops a workload that runs, does not exist, or is blocked by another cause, so that others
// need not wait for it.
func (l *List) Forget(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns.forget(key) {
		l.signal()
	}
}

// Len returns the number of workloads in the List, for tests that look for leaks.
func (l *List) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns.len()
}

// GatheringEnds returns the time until which retried workloads may still arrive after one event, so
// that it is too early to order them. The time is zero if no such workloads are expected.
func (l *List) GatheringEnds(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns.lullEnds(now)
}
