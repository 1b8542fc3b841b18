package whatif

import (
	"time"

	"k8s.io/utils/clock"
)

// stopped is a clock that always shows the time of an inventory. So decisions do not depend on
// their own duration. Its timers never fire.
type stopped struct{ at time.Time }

var _ clock.WithTicker = stopped{}

// Now returns the time of the inventory.
func (c stopped) Now() time.Time { return c.at }

// Since returns the time from t to the time of the inventory.
func (c stopped) Since(t time.Time) time.Duration { return c.at.Sub(t) }

// NewTimer returns a timer that never fires.
func (stopped) NewTimer(time.Duration) clock.Timer { return never{} }

// NewTicker returns a ticker that never ticks.
func (stopped) NewTicker(time.Duration) clock.Ticker { return neverTicks{} }

// Sleep returns at once.
func (stopped) Sleep(time.Duration) {}

// After returns a nil channel, which never has a value.
func (stopped) After(time.Duration) <-chan time.Time { return nil }

// Tick returns a nil channel, which never has a value.
func (stopped) Tick(time.Duration) <-chan time.Time { return nil }

type never struct{}

// C returns a nil channel, which never has a value.
func (never) C() <-chan time.Time { return nil }

// Stop reports that the timer had not fired.
func (never) Stop() bool { return true }

// Reset reports that the timer had not fired.
func (never) Reset(time.Duration) bool { return true }

type neverTicks struct{}

// C returns a nil channel, which never has a value.
func (neverTicks) C() <-chan time.Time { return nil }

// Stop does nothing.
func (neverTicks) Stop() {}
