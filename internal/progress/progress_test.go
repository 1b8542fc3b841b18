package progress

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// TestStalled checks that a step counts as stalled after stallTime, and that this ends with the
// step.
func TestStalled(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	s := New(clk, metrics.New())
	if err := s.Stalled(); err != nil {
		t.Error(err)
	}
	short := s.Begin("a short step", clk.Now())
	clk.Step(time.Second)
	long := s.Begin("a long step", clk.Now())
	short()
	clk.Step(stallTime)
	if err := s.Stalled(); err != nil {
		t.Error(err)
	}
	clk.Step(time.Second)
	if err := s.Stalled(); err == nil || !strings.Contains(err.Error(), "a long step has taken 2m1s") {
		t.Errorf("Stalled returns %v", err)
	}
	if long(); s.Stalled() != nil {
		t.Error("the step counts as stalled after its end")
	}
}
