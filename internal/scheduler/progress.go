package scheduler

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// stallTime is the longest time that a step of the scheduler may take. In large clusters, the
// slowest steps take some seconds.
const stallTime = 2 * time.Minute

// progress records the steps that are under way, so that a step that never ends is found. The zero
// value is ready to use. It is safe for concurrent use.
type progress struct {
	mu    sync.Mutex
	steps map[*step]struct{}
}

// step is a piece of work that must end soon, such as a decision.
type step struct {
	what  string
	began time.Time
	// logged is true if the stacks of all goroutines have been logged because of this step.
	logged bool
}

// begin records that a step begins at the time now. The caller must call end when the step has
// ended.
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

// longest returns the oldest step that is under way, and its age; nil without a step.
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

// logs reports whether the goroutines must be logged because of a step. It returns true only at the
// first call for the step.
func (p *progress) logs(s *step) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !s.logged
	s.logged = true
	return first
}

// mostStacks is the maximum size of the logged stacks, in bytes.
const mostStacks = 1 << 20

func allStacks() []byte {
	text := make([]byte, mostStacks)
	return text[:runtime.Stack(text, true)]
}

// Stalled returns an error if the main loop or a decision makes no progress. If another goroutine
// holds the lock of the scheduler's queue forever, no pod is scheduled, and the main loop stalls
// too; see findStall. Stalled also updates the metric of the longest step. It does not block. Any
// goroutine may call it.
func (h *Scheduler) Stalled() error {
	now := h.clock.Now()
	s, age := h.progress.longest(now)
	if h.metrics.LongestStep(age); age > stallTime {
		if h.progress.logs(s) {
			// The kubelet will restart the container soon, and only this log line then shows the
			// cause.
			klog.Background().Error(nil, "The scheduler stalls", "step", s.what, "since", s.began, "goroutines", string(allStacks()))
		}
		return fmt.Errorf("%s has taken %v without an end; see the goroutines at /debug/pprof/goroutine", s.what, age.Round(time.Second))
	}
	return nil
}

// findStall acquires and releases the lock of the scheduler's queue. If another goroutine never
// releases the lock, the main loop stalls here, and the health check fails.
func (h *Scheduler) findStall() { h.handle.Activate(klog.Background(), nil) }
