package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// LetThrough begins the next turns once those before them are over, and returns the workloads in the order in which they go.
// Without shares, because there are no queues, none is held back; work of a queue that is not there has nothing to wait for either,
// and is to hear it.
func (l *List) LetThrough(shares Shares, now time.Time) []workload.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.turns
	out := t.outsiders(shares)
	if shares == nil {
		return out
	}
	t.lullBegan = time.Time{}
	if t.prompt(now) == 0 {
		if len(t.underway) > 0 {
			// They take long, so that an order of several says little.
			t.batch.most = 1
		}
		out = append(out, t.admit(shares, now)...)
	}
	return out
}

// prompt counts the turns that have begun lately, and ends those that have taken too long.
func (t *turns) prompt(now time.Time) int {
	prompt := 0
	for key, w := range t.underway {
		switch took := now.Sub(w.began); {
		case took > longestTurn:
			delete(t.underway, key)
		case took <= patience:
			prompt++
		}
	}
	return prompt
}

// outsiders admits the work of queues that are not in the tree.
func (t *turns) outsiders(shares Shares) (out []workload.Key) {
	for _, name := range t.unchecked(shares) {
		l := t.lines[name]
		if l == nil || shares != nil && shares.HasLeaf(name) {
			continue
		}
		for len(l.Items) > 0 {
			w := l.Items[0]
			t.leave(w)
			t.admitted[w.Key] = w
			out = append(out, w.Key)
		}
	}
	slices.SortFunc(out, workload.Key.Compare)
	return out
}

// unchecked are the queues of which it is not known that they are in the tree.
func (t *turns) unchecked(shares Shares) []string {
	fresh := t.fresh
	t.fresh = nil
	switch {
	case shares == nil:
		// The next tree may be any.
		t.listed = 0
	case shares.Listed() == t.listed:
		return fresh
	default:
		t.listed = shares.Listed()
	}
	return slices.Collect(maps.Keys(t.lines))
}

// round is what is known of those that wait while a batch is picked from them.
type round struct {
	// waiting are the queues of which one goes next: all, where each backs off. Underway is what has been let through, by leaf.
	waiting  []string
	all      bool
	underway map[string]Request
}

// round looks at all queues. One whose first workload has just failed lets others go before it: it would stand in their way each
// time that something changes.
func (t *turns) round(now time.Time) *round {
	c := &round{waiting: make([]string, 0, len(t.lines)), underway: make(map[string]Request)}
	for name, l := range t.lines {
		if !l.Items[0].rested.After(now) {
			c.waiting = append(c.waiting, name)
		}
	}
	for _, w := range t.underway {
		c.goes(w)
	}
	return c
}

// goes has what a workload asks for count for its queue.
func (c *round) goes(w *waiter) {
	if c.underway[w.Queue] == nil {
		c.underway[w.Queue] = make(Request)
	}
	c.underway[w.Queue].add(w.Request)
}

// next takes the next one in order out of its line, of those in a leaf: of the queue whose turn it is by priority, then age.
func (t *turns) next(c *round, shares Shares, now time.Time) *waiter {
	if len(c.waiting) == 0 {
		c.all = true
		c.waiting = slices.AppendSeq(c.waiting, maps.Keys(t.lines))
	}
	leaf, _ := shares.Next(c.waiting, c.underway)
	w := t.lines[leaf].Items[0]
	t.leave(w)
	c.goes(w)
	if l := t.lines[leaf]; l == nil || !c.all && l.Items[0].rested.After(now) {
		c.waiting = slices.DeleteFunc(c.waiting, func(name string) bool { return name == leaf })
	}
	return w
}

// OthersWait reports whether work waits for the turn of another queue, or goes next, that which backs off left out.
func (l *List) OthersWait(queue string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, line := range l.turns.lines {
		if name != queue && !line.Items[0].rested.After(now) {
			return true
		}
	}
	for _, w := range l.turns.underway {
		if w.Queue != queue && now.Sub(w.began) <= patience {
			return true
		}
	}
	return false
}

// mostEased is how many of a queue are woken at a time because shares have changed in their favour, the first in order.
// The others have their turn a moment later.
const mostEased = 20

// Eased picks those whose last turn came to nothing and that may fare better since, because shares have changed: nothing
// else may happen in the cluster that would have them tried again.
func (l *List) Eased(shares Shares) []workload.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, ready := make(map[string]uint64), make(map[string][]*waiter)
	for _, w := range l.turns.backingOff {
		if _, ok := since[w.Queue]; !ok {
			since[w.Queue] = shares.Eased(w.Queue)
		}
		if w.seen < since[w.Queue] && shares.Entitled(w.Queue, w.Request) {
			ready[w.Queue] = append(ready[w.Queue], w)
		}
	}
	var out []workload.Key
	for _, waiters := range ready {
		slices.SortFunc(waiters, order)
		for _, w := range waiters[:min(len(waiters), mostEased)] {
			w.seen = shares.At()
			out = append(out, w.Key)
		}
	}
	slices.SortFunc(out, workload.Key.Compare)
	return out
}

const (
	// untoldTime is how long work waits for its first turn before its users are told, and mostTold of how much they are
	// told at a time: after that the scheduler says itself what is in the way.
	untoldTime = 10 * time.Second
	mostTold   = 20
)

// Untold picks those that have waited for their first turn for long and of which that has not been said, each once, and
// counts all that wait, by queue.
func (l *List) Untold(now time.Time) (picked []Waiter, waiting map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting = make(map[string]int, len(l.turns.lines))
	for name, line := range l.turns.lines {
		waiting[name] = len(line.Items)
	}
	for _, w := range l.turns.held {
		if len(picked) == mostTold {
			break
		}
		if !w.told && w.failures == 0 && now.Sub(w.came) >= untoldTime {
			w.told = true
			picked = append(picked, w.Waiter)
		}
	}
	return picked, waiting
}
