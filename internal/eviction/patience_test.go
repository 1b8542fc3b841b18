package eviction

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestPatienceBeginsWithARefusal checks a webhook that fails twice, half an hour apart. Between the
// failures, the refused pod is deleted. The second refusal must not protect a pod at once, because
// the time of patience begins again with this refusal.
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
