package scheduler

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// timers wake preemptors at the moment from which on there is room for them, because a protection has ended.
// It is safe for concurrent use. Nothing runs between the moments; a timer that is left goes off once and finds
// nobody to wake.
type timers struct {
	clock clock.WithDelayedExecution
	wake  func(owner)

	mu      sync.Mutex
	pending map[owner]clock.Timer
	// held are those for whom there is no such moment, unless somebody lifts a protection.
	held sets.Set[owner]
}

func newTimers(clk clock.WithDelayedExecution, wake func(owner)) *timers {
	return &timers{clock: clk, wake: wake, pending: make(map[owner]clock.Timer), held: sets.New[owner]()}
}

// set wakes an owner at a moment, in place of what was set for it before.
func (t *timers) set(o owner, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(o)
	t.pending[o] = t.clock.AfterFunc(max(at.Sub(t.clock.Now()), 0), func() {
		t.mu.Lock()
		delete(t.pending, o)
		t.mu.Unlock()
		t.wake(o)
	})
}

// hold remembers an owner until release, in place of what was set for it before.
func (t *timers) hold(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(o)
	t.held.Insert(o)
}

// cancel forgets an owner.
func (t *timers) cancel(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(o)
}

func (t *timers) drop(o owner) {
	t.held.Delete(o)
	if timer, ok := t.pending[o]; ok {
		timer.Stop()
		delete(t.pending, o)
	}
}

// release wakes those who are held.
func (t *timers) release() {
	t.mu.Lock()
	owners := t.held.UnsortedList()
	clear(t.held)
	t.mu.Unlock()
	for _, o := range owners {
		t.wake(o)
	}
}

// fire wakes everyone now for whom a moment is set.
func (t *timers) fire() {
	t.mu.Lock()
	owners := slices.Collect(maps.Keys(t.pending))
	for _, o := range owners {
		t.drop(o)
	}
	t.mu.Unlock()
	for _, o := range owners {
		t.wake(o)
	}
}
