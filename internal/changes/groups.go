package changes

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// changeBurst is the number of changes of a PodGroup that are handled without delay. The start
	// of a gang causes only a few changes.
	changeBurst = 10
	// changeInterval is the time between two later changes of a PodGroup. The scheduler handles all
	// changes within one interval together.
	changeInterval = 100 * time.Millisecond
	// changeRest is the length of the pause after the main loop has handled a delayed change. It is
	// a multiple of the time that this took. The pause applies to the delayed changes of all
	// PodGroups.
	changeRest = 4
)

// Groups delays the handling of PodGroups that change very often. Handling one change takes time
// for each member, and may cause a cycle of the gang. The namespaces take turns, so a tenant with
// many changes mostly delays its own PodGroups. The zero value is ready to use. It is safe for
// concurrent use.
type Groups struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*changingGroup
	// delayed lists the PodGroups with unhandled changes, the earliest first.
	delayed []types.NamespacedName
	// last maps each namespace to the time when the main loop last handled one of its delayed
	// changes.
	last map[string]time.Time
	// rests is the end of the pause after the last handled delayed change; see changeRest.
	rests time.Time
}

// Urgency determines whether the handling of a change may be delayed.
type Urgency int

const (
	// Patient is the urgency of changes that may be delayed.
	Patient Urgency = iota
	// Urgent is the urgency of changes that are not delayed. The deletion of a PodGroup is urgent,
	// because a deleted group may hold room and has no further changes.
	Urgent
)

// changingGroup is the state of a PodGroup with recent changes.
type changingGroup struct {
	limit *rate.Limiter
	// due is the time to handle the PodGroup's changes; zero if there are none.
	due time.Time
	// following is true while the main loop handles a delayed change of the PodGroup.
	following bool
}

// IsDelayed records a change of a PodGroup and reports whether its handling is delayed. If not, the
// caller must handle the change at once. If so, a later call of Next returns the PodGroup.
//
// While the main loop handles a change of a PodGroup, IsDelayed delays all further changes of that
// PodGroup, even urgent ones. So no goroutine handles an old state after a newer one.
func (c *Groups) IsDelayed(key types.NamespacedName, urgency Urgency, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[key]
	if g == nil {
		if c.groups == nil {
			c.groups = make(map[types.NamespacedName]*changingGroup)
		}
		g = &changingGroup{limit: rate.NewLimiter(rate.Every(changeInterval), changeBurst)}
		c.groups[key] = g
	}
	if !g.due.IsZero() && (g.following || urgency != Urgent) {
		return true
	}
	if !g.following && (urgency == Urgent || g.limit.AllowN(now, 1)) {
		return false
	}
	g.due = now.Add(changeInterval)
	c.delayed = append(c.delayed, key)
	return true
}

// NextLook returns the time when the next delayed change is due; false if there is none.
func (c *Groups) NextLook() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.delayed) == 0 {
		return time.Time{}, false
	}
	at := c.groups[c.delayed[0]].due
	if at.Before(c.rests) {
		at = c.rests
	}
	return at, true
}

// Next returns a PodGroup whose changes are due; false if there is none. It prefers the namespace
// whose last delayed change was handled the longest time ago. The caller must call Followed when it
// has handled the changes.
func (c *Groups) Next(now time.Time) (types.NamespacedName, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.rests) {
		return types.NamespacedName{}, false
	}
	at := -1
	for i, key := range c.delayed {
		if now.Before(c.groups[key].due) {
			break
		}
		if at < 0 || c.last[key.Namespace].Before(c.last[c.delayed[at].Namespace]) {
			at = i
		}
	}
	if at < 0 {
		return types.NamespacedName{}, false
	}
	key := c.delayed[at]
	c.delayed = slices.Delete(c.delayed, at, at+1)
	g := c.groups[key]
	g.due, g.following = time.Time{}, true
	g.limit.AllowN(now, 1)
	return key, true
}

// Followed records that the main loop handled a delayed change of a PodGroup, from began until now.
func (c *Groups) Followed(key types.NamespacedName, began, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[key].following = false
	if c.last == nil {
		c.last = make(map[string]time.Time)
	}
	c.last[key.Namespace] = now
	c.rests = now.Add(changeRest * now.Sub(began))
}

// Prune drops the state of PodGroups without recent changes. Their next changes are not delayed.
func (c *Groups) Prune(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, g := range c.groups {
		if g.due.IsZero() && !g.following && g.limit.TokensAt(now) >= changeBurst {
			delete(c.groups, key)
		}
	}
	if len(c.delayed) == 0 {
		c.last = nil
	}
}
