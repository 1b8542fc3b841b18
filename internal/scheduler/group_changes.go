package scheduler

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// changeBurst is the number of changes of a PodGroup that the scheduler handles without delay.
	// A gang that starts has a few. changeInterval is the time between two later changes; all
	// changes within it are handled together.
	changeBurst, changeInterval = 10, 100 * time.Millisecond
	// changeRest is the pause after handling a delayed change, as a multiple of the time that this
	// took. It applies to all PodGroups together.
	changeRest = 4
)

// groupChanges delays changes of PodGroups that change all the time. Handling a change takes time
// for each member of the group, and a cycle of the gang. Namespaces take turns, so a tenant that
// keeps changing PodGroups mostly delays itself. With the zero value, the first changeBurst changes
// of each PodGroup are not delayed. It is safe for concurrent use.
type groupChanges struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*changingGroup
	// delayed lists the PodGroups with a change that is not handled yet, the earliest first.
	delayed []types.NamespacedName
	// last has, for each namespace, the time when one of its delayed changes was last handled.
	last map[string]time.Time
	// rests is the end of the pause after the last delayed change; see changeRest. Until then, the
	// scheduler handles no delayed change.
	rests time.Time
}

// urgency selects whether a change of a PodGroup may be delayed.
type urgency int

const (
	// patient changes may be delayed.
	patient urgency = iota
	// urgent changes are handled at once. The deletion of a PodGroup is urgent, because the group
	// holds room and will not change again.
	urgent
)

// changingGroup is a PodGroup that has changed lately.
type changingGroup struct {
	limit *rate.Limiter
	// due is the time to handle the changes of the PodGroup; zero if all are handled.
	due time.Time
	// following is true while the main loop handles a delayed change.
	following bool
}

// isDelayed records a change of a PodGroup. If it returns false, the caller must handle the change
// now. Otherwise a later call of next returns the PodGroup. While the main loop handles a delayed
// change of a PodGroup, isDelayed delays all other changes of it, even urgent ones. So no goroutine
// handles an older state after a newer one.
func (c *groupChanges) isDelayed(key types.NamespacedName, urgency urgency, now time.Time) bool {
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
	if !g.due.IsZero() && (g.following || urgency != urgent) {
		return true
	}
	if !g.following && (urgency == urgent || g.limit.AllowN(now, 1)) {
		return false
	}
	g.due = now.Add(changeInterval)
	c.delayed = append(c.delayed, key)
	return true
}

// nextLook returns the time of the next delayed change; false for none.
func (c *groupChanges) nextLook() (time.Time, bool) {
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

// next returns the PodGroup whose changes are due; false for none. The namespace that has waited
// longest since its last turn comes first. The caller must call followed afterwards.
func (c *groupChanges) next(now time.Time) (types.NamespacedName, bool) {
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

// followed records that a delayed change of a PodGroup was handled from began until now.
func (c *groupChanges) followed(key types.NamespacedName, began, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups[key].following = false
	if c.last == nil {
		c.last = make(map[string]time.Time)
	}
	c.last[key.Namespace] = now
	c.rests = now.Add(changeRest * now.Sub(began))
}

// prune forgets the PodGroups without recent changes. Their next changes are handled without delay.
func (c *groupChanges) prune(now time.Time) {
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

// followDelayed handles delayed changes of PodGroups. The main loop calls it.
func (h *Scheduler) followDelayed() {
	for {
		began := h.clock.Now()
		key, ok := h.changes.next(began)
		if !ok {
			return
		}
		h.followGroup(key)
		h.changes.followed(key, began, h.clock.Now())
	}
}
