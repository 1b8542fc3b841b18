package pacing

import "time"

// memory is the shortest time that a fast call counts as evidence of how fast calls can be. It is
// longer than other clients usually keep an API server busy. It is short enough to adapt to an API
// server that has become slower for good.
const memory = 10 * time.Minute

// fastest records the shortest duration of calls without contention, by kind. It covers two periods
// of memory: the current one and the one before.
type fastest struct {
	now, before map[string]time.Duration
	since       time.Time
}

func newFastest(now time.Time) fastest {
	return fastest{now: make(map[string]time.Duration), since: now}
}

// see records the duration of a call. It returns the shortest recorded duration of a call of the
// same kind, at least one microsecond.
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
