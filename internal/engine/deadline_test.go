package engine

import (
	"strings"
	"testing"
	"time"
)

// TestOnClock checks that a deadline converted by OnClock is as far away as before, even if the
// system time is changed.
func TestOnClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := OnClock(now.Round(0).Add(time.Hour), now)
	if got := at.Sub(now); got != time.Hour {
		t.Errorf("It comes in %s, want in an hour", got)
	}
	if !strings.Contains(at.String(), " m=") {
		t.Errorf("%s has no monotonic reading", at)
	}
}
