package whatif

import (
	"time"

	"k8s.io/utils/clock"
)

// stopped is a clock that stands still at the moment of an inventory: what is decided does not depend on how long deciding takes, and
// nothing that waits for a moment wakes.
type stopped struct{ at time.Time }

var _ clock.WithTicker = stopped{}

// Now is the moment.
func (c stopped) Now() time.Time { return c.at }

// Since is how long ago something was at the moment.
func (c stopped) Since(t time.Time) time.Duration { return c.at.Sub(t) }

// NewTimer makes a timer that never fires.
func (stopped) NewTimer(time.Duration) clock.Timer { return never{} }

// NewTicker makes a ticker that never ticks.
func (stopped) NewTicker(time.Duration) clock.Ticker { return neverTicks{} }

// Sleep returns at once.
func (stopped) Sleep(time.Duration) {}

// After never comes.
func (stopped) After(time.Duration) <-chan time.Time { return nil }

// Tick never comes.
func (stopped) Tick(time.Duration) <-chan time.Time { return nil }

type never struct{}

// C never has a value.
func (never) C() <-chan time.Time { return nil }

// Stop reports that the timer had not fired.
func (never) Stop() bool { return true }

// Reset reports that the timer had not fired.
func (never) Reset(time.Duration) bool { return true }

type neverTicks struct{}

// C never has a value.
func (neverTicks) C() <-chan time.Time { return nil }

// Stop does nothing.
func (neverTicks) Stop() {}
