package pacing

import "time"

// memory is the minimum time that the Limiter remembers the duration of a fast call. It is longer
// than other clients usually keep an API server busy. It is short enough to adapt to an API server
// that has become slower permanently.
const memory = 10 * time.Minute

// fastest records the shortest duration of each kind of call. now covers the current period of
// length memory, and before covers the previous period.
type fastest struct {
	now, before map[string]time.Duration
	since       time.Time
}

func newFastest(now time.Time) fastest {
	return fastest{now: make(map[string]time.Duration), since: now}
}

// see records the duration of a call. It returns the shortest recorded duration of that kind of
// call, which is at least one microsecond.
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
