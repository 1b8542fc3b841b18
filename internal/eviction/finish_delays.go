package eviction

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// firstDelay and longestDelay are the shortest and the longest delay before the next try, if a
	// group could not be evicted completely.
	firstDelay   = 50 * time.Millisecond
	longestDelay = 30 * time.Second
)

// delays has the delays of groups that could not be evicted completely. Each failed try doubles the
// delay. The delays of the work queue are not enough. Each change of a pod queues its group at
// once, and each try changes pods by setting their conditions. delays is safe for concurrent use.
type delays struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	groups map[types.NamespacedName]delay
}

// delay is the delay of one group. since is the time of its first failure.
type delay struct {
	since  time.Time
	length time.Duration
	end    time.Time
}

func newDelays(clk clock.PassiveClock) *delays {
	return &delays{clock: clk, groups: make(map[types.NamespacedName]delay)}
}

// left returns the time until a group may be tried again. The result is 0 or negative if the group
// may be tried now.
func (d *delays) left(key types.NamespacedName) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.groups[key]; ok {
		return g.end.Sub(d.clock.Now())
	}
	return 0
}

// putOff starts the delay of a group after a failed try, or doubles the last delay.
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

// lasting returns the time since the first failure of a group; 0 if no try has failed.
func (d *delays) lasting(key types.NamespacedName) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.groups[key]; ok {
		return d.clock.Since(g.since)
	}
	return 0
}

// forget deletes the delay of a group, because the group is gone or all its pods are evicted.
func (d *delays) forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.groups, key)
}
