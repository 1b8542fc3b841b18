package engine

import "time"

// OnClock converts a time from the API or the core to the clock of the process. All deadlines use
// that clock, so a change of the system time does not change their order.
func OnClock(at, now time.Time) time.Time { return now.Add(at.Sub(now)) }
