package eviction

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// firstDelay and longestDelay bound the delay before the next try for a group that could not be
	// evicted completely.
	firstDelay   = 50 * time.Millisecond
	longestDelay = 30 * time.Second
)

// delays holds the delays of groups that could not be evicted completely. Each failure doubles the
// delay. A workqueue's own delays do not suffice: each change of a pod queues its group, and a try
// that marks pods changes them. It is safe for concurrent use.
type delays struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	groups map[types.NamespacedName]delay
}

// delay is the delay of one group: the time of the first failure, the length of the delay, and its
// end.
type delay struct {
	since  time.Time
	length time.Duration
	end    time.Time
}

func newDelays(clk clock.PassiveClock) *delays {
	return &delays{clock: clk, groups: make(map[types.NamespacedName]delay)}
}

// left returns the remaining delay of a group. It is 0 or negative if the group may be tried.
func (d *delays) left(key types.NamespacedName) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.groups[key]; ok {
		return g.end.Sub(d.clock.Now())
	}
	return 0
}

// putOff starts or doubles the delay of a group after a try that failed.
func (d *delays) putOff(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, g := d.clock.Now(), d.groups[key]
	if g == (delay{}) {
		g.since = now
	}
	g.length = min(max(2*g.length, firstDelay), longestDelay)
	g.end = now.Add(g.length)
	d.groups[key] = g
}

// lasting returns the time since the first failure of a group, or 0 if there was no failure.
func (d *delays) lasting(key types.NamespacedName) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.groups[key]; ok {
		return d.clock.Since(g.since)
	}
	return 0
}

// forget ends the delay of a group that is gone or has no pods left to evict.
func (d *delays) forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.groups, key)
}
