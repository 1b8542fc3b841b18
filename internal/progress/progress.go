package progress

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// stallTime is the longest time that a step of the scheduler may take. In large clusters, the
// slowest steps take some seconds.
const stallTime = 2 * time.Minute

// Steps records the steps that are under way, so that a step that never ends is found. Use [New] to
// create a value. It is safe for concurrent use.
type Steps struct {
	clock   clock.PassiveClock
	metrics *metrics.Metrics
	mu      sync.Mutex
	all     map[*step]struct{}
}

// step is a piece of work that must end soon, such as a decision.
type step struct {
	what  string
	began time.Time
	// logged is true if the stacks of all goroutines have been logged because of this step.
	logged bool
}

// New returns Steps without any step.
func New(clk clock.PassiveClock, m *metrics.Metrics) *Steps {
	return &Steps{clock: clk, metrics: m, all: make(map[*step]struct{})}
}

// Begin records that a step begins at the time now. The caller must call end when the step has
// ended.
func (s *Steps) Begin(what string, now time.Time) (end func()) {
	one := &step{what: what, began: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[one] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, one)
	}
}

// longest returns the oldest step that is under way, and its age; nil without a step.
func (s *Steps) longest(now time.Time) (longest *step, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.all {
		if longest == nil || one.began.Before(longest.began) {
			longest, age = one, now.Sub(one.began)
		}
	}
	return longest, age
}

// logs reports whether the goroutines must be logged because of a step. It returns true only at the
// first call for the step.
func (s *Steps) logs(one *step) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !one.logged
	one.logged = true
	return first
}

// mostStacks is the maximum size of the logged stacks, in bytes.
const mostStacks = 1 << 20

func allStacks() []byte {
	text := make([]byte, mostStacks)
	return text[:runtime.Stack(text, true)]
}

// Stalled returns an error if a step has taken too long. It also updates the metric of the longest
// step. It does not block. Any goroutine may call it.
func (s *Steps) Stalled() error {
	one, age := s.longest(s.clock.Now())
	if s.metrics.LongestStep(age); age > stallTime {
		if s.logs(one) {
			// The kubelet will restart the container soon, and only this log line then shows the
			// cause.
			klog.Background().Error(nil, "The scheduler stalls", "step", one.what, "since", one.began, "goroutines", string(allStacks()))
		}
		return fmt.Errorf("%s has taken %v without an end; see the goroutines at /debug/pprof/goroutine", one.what, age.Round(time.Second))
	}
	return nil
}
