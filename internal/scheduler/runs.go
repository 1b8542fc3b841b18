package scheduler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// runs has the gangs that were short of members since the time that their status has as the start of their run. The status is written
// later, or not at all while the API cannot be reached, and what runs anew by then is protected anew. The zero value is ready to
// use, and safe for concurrent use.
type runs struct {
	mu     sync.Mutex
	broken map[types.NamespacedName]*brokenRun
}

// brokenRun is a run that began at start, and lacks members since a moment; zero once it has enough again. It is over once it has
// lacked them for long enough.
type brokenRun struct {
	start, since time.Time
	over         bool
}

// follow takes in how many members of a gang have their place now.
func (r *runs) follow(g *gang.Group, placed int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.broken[g.Key]
	if b != nil && !b.start.Equal(g.StartTime) {
		delete(r.broken, g.Key)
		b = nil
	}
	switch {
	case g.StartTime.IsZero() || b == nil && placed >= g.MinCount:
	case b == nil:
		if r.broken == nil {
			r.broken = make(map[types.NamespacedName]*brokenRun)
		}
		r.broken[g.Key] = &brokenRun{start: g.StartTime, since: now}
	case placed < g.MinCount:
		if b.since.IsZero() {
			b.since = now
		}
	case b.isOver(now):
		b.over, b.since = true, time.Time{}
	default:
		delete(r.broken, g.Key)
	}
}

// isOver reports whether a gang has lacked members for long enough since its run began at a time.
func (r *runs) isOver(key types.NamespacedName, start, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.broken[key]
	return b != nil && b.start.Equal(start) && b.isOver(now)
}

func (b *brokenRun) isOver(now time.Time) bool {
	return b.over || !b.since.IsZero() && now.Sub(b.since) >= gang.ShortTime
}

// forget drops a gang without members.
func (r *runs) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.broken, key)
}
