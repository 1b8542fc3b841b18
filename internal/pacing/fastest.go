package pacing

import "time"

// memory is for how long a call that was fast says how fast calls can be, at least. It is longer than another process keeps an API
// server busy as a rule, and short enough for an API server that has become slower for good.
const memory = 10 * time.Minute

// fastest keeps how long calls take when nothing is in their way, by kind: the shortest time in two spans of memory.
type fastest struct {
	now, before map[string]time.Duration
	since       time.Time
}

func newFastest(now time.Time) fastest {
	return fastest{now: make(map[string]time.Duration), since: now}
}

// see takes note of how long a call took, and returns the shortest time that one of its kind has taken; at least a
// microsecond.
func (f *fastest) see(kind string, took time.Duration, now time.Time) time.Duration {
	if now.Sub(f.since) >= memory {
		f.now, f.before, f.since = make(map[string]time.Duration), f.now, now
	}
	took = max(took, time.Microsecond)
	if best, ok := f.now[kind]; !ok || took < best {
		f.now[kind] = took
	}
	if old, ok := f.before[kind]; ok {
		return min(old, f.now[kind])
	}
	return f.now[kind]
}
