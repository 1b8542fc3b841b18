package eviction

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// firstDelay and longestDelay bound how long a group waits for the next try of which a pod could not be removed.
	firstDelay   = 50 * time.Millisecond
	longestDelay = 30 * time.Second
)

// delays are when groups are tried again of which a pod could not be removed: each time twice as long after the last try. A workqueue's
// own delays are not enough, since any change of a pod has its group looked at, and a try that marks pods changes them. It is safe
// for concurrent use.
type delays struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	groups map[types.NamespacedName]delay
}

// delay is that of one group: since when it has been tried here in vain, how long the delay is, and when it is over.
type delay struct {
	since  time.Time
	length time.Duration
	end    time.Time
}

func newDelays(clk clock.PassiveClock) *delays {
	return &delays{clock: clk, groups: make(map[types.NamespacedName]delay)}
}

// left is how long a group still waits; nothing or less for one that may be tried.
func (d *delays) left(key types.NamespacedName) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.groups[key]; ok {
		return g.end.Sub(d.clock.Now())
	}
	return 0
}

// putOff has a group wait after a try that failed.
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

// lasting is for how long a group has been tried in vain.
func (d *delays) lasting(key types.NamespacedName) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.groups[key]; ok {
		return d.clock.Since(g.since)
	}
	return 0
}

// forget ends the delay of a group of which nothing is left to be removed, or that has gone.
func (d *delays) forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.groups, key)
}
