package scheduler

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// stallTime is the longest time that a step of the scheduler may take. The slowest steps of large
// clusters take seconds.
const stallTime = 2 * time.Minute

// progress holds the steps that are under way, to find a step that does not end. The zero value has
// none. It is safe for concurrent use.
type progress struct {
	mu    sync.Mutex
	steps map[*step]struct{}
}

// step is one piece of work that must end soon.
type step struct {
	what  string
	began time.Time
	// logged is true once the goroutines were logged for this step.
	logged bool
}

// begin records that a step begins now. The caller must call end when it has ended.
func (p *progress) begin(what string, now time.Time) (end func()) {
	s := &step{what: what, began: now}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.steps == nil {
		p.steps = make(map[*step]struct{})
	}
	p.steps[s] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.steps, s)
	}
}

// longest returns the step that has taken longest, with its age; nil without a step.
func (p *progress) longest(now time.Time) (longest *step, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.steps {
		if longest == nil || s.began.Before(longest.began) {
			longest, age = s, now.Sub(s.began)
		}
	}
	return longest, age
}

// logs reports whether to log the goroutines for a step. It returns true once for each step.
func (p *progress) logs(s *step) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !s.logged
	s.logged = true
	return first
}

// mostStacks is the size of the longest log of goroutines, in bytes.
const mostStacks = 1 << 20

// allStacks returns the stacks of all goroutines, at most mostStacks bytes of them.
func allStacks() []byte {
	text := make([]byte, mostStacks)
	return text[:runtime.Stack(text, true)]
}

// Stalled returns an error if the main loop or a decision makes no progress. The main loop makes
// none while another goroutine holds the lock of the scheduler's queue, because no pod is scheduled
// then. Stalled also updates the metric of the longest step. It does not block. Any goroutine may
// call it.
func (h *Scheduler) Stalled() error {
	now := h.clock.Now()
	s, age := h.progress.longest(now)
	if h.metrics.LongestStep(age); age > stallTime {
		if h.progress.logs(s) {
			// The kubelet restarts the container soon, and nothing else shows the cause afterwards.
			klog.Background().Error(nil, "The scheduler stalls", "step", s.what, "since", s.began, "goroutines", string(allStacks()))
		}
		return fmt.Errorf("%s has taken %v without an end; see the goroutines at /debug/pprof/goroutine", s.what, age.Round(time.Second))
	}
	return nil
}

// findStall takes and releases the lock of the scheduler's queue. If another goroutine holds that
// lock forever, the main loop stalls here, and the health check reports it.
func (h *Scheduler) findStall() { h.handle.Activate(klog.Background(), nil) }
