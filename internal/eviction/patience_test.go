package eviction

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestPatienceBeginsWithARefusal has a webhook that fails for a moment, twice, half an hour apart. In
// between, the refused pod is deleted. The refusal half an hour later must not protect a pod at once:
// patience begins with it.
func TestPatienceBeginsWithARefusal(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r := NewRefusals(clk)
	if r.Note("ns", "n", "a") {
		t.Fatal("the first refusal protects")
	}
	clk.Step(time.Second)
	r.deleted("a")
	clk.Step(30 * time.Minute)
	if r.Note("ns", "n", "b") || !r.Until("b").IsZero() {
		t.Errorf("the first refusal after a deletion that succeeded protects a pod for %v", r.Until("b").Sub(clk.Now()))
	}
}
