package admission

import (
	"sync"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// List holds queued workloads and decides which one is admitted next. Use [NewList] to create
// one.
type List struct {
	// signal is called when Admit may have work.
	signal func()
	// present reports whether a workload has a record in the engine.
	present func(workload.Key) bool

	mu    sync.Mutex
	turns turns
}

// NewList returns an empty List. The List calls signal when [List.Admit] may have work. Only
// workloads that present accepts enter the List. Both functions are called with the List's lock
// held, so they must not call the List.
func NewList(signal func(), present func(workload.Key) bool) *List {
	return &List{signal: signal, present: present, turns: newTurns()}
}

// Placed records that a workload has found room, so that the next turn can begin. If the
// workload loses its node and is queued again, it needs no other turn.
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

// Forget drops a workload that runs, was deleted, or is blocked by a cause other than turns.
// Other workloads then do not wait for it.
func (l *List) Forget(key workload.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns.forget(key) {
		l.signal()
	}
}

// Len returns the number of workloads in the List. Tests use it to find leaks.
func (l *List) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns.len()
}

// GatheringEnds returns the end of a short wait for further workloads that one event retries. Do
// not call Admit before that time, because these workloads must be ordered together. The time is
// zero if there is no such wait.
func (l *List) GatheringEnds(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns.lullEnds(now)
}
