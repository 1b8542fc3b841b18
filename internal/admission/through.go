package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// LetThrough begins the next turns once those before them are over, and returns the workloads in the order in which they go. Where there is
// room for all, all go. Without shares, because there are no queues, none is held back; work of a queue that is not there has nothing to wait for either,
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
	out = append(out, t.releaseFreely(shares, now)...)
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
		for at := range l {
			for len(l[at].Items) > 0 {
				w := l[at].Items[0]
				t.pass(w)
				out = append(out, w.Key)
			}
		}
	}
	slices.SortFunc(out, workload.Key.Compare)
	return out
}

// unchecked are the queues of which it is not known that they are in the tree.
func (t *turns) unchecked(shares Shares) []string {
	fresh := slices.Collect(maps.Keys(t.fresh))
	clear(t.fresh)
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
	// waiting are the queues that have work of each level, and led counts those whose first is ready. Underway is what has been
	// let through, by leaf.
	waiting  [levels][]string
	led      int
	underway map[string]Request
}

// round looks at all queues.
func (t *turns) round(now time.Time) *round {
	t.settle(now)
	c := &round{underway: make(map[string]Request)}
	c.waiting[ready] = make([]string, 0, len(t.lines))
	for name, l := range t.lines {
		for at := range l {
			if len(l[at].Items) > 0 {
				c.waiting[at] = append(c.waiting[at], name)
			}
		}
		if l.isLedByReady() {
			c.led++
		}
	}
	for _, w := range t.underway {
		c.goes(w)
	}
	for _, w := range t.freely.underway {
		if now.Sub(w.began) <= longestTurn {
			c.goes(w)
		}
	}
	return c
}

// level is that of which one goes next. Where the first of some queue is ready, one goes that is ready, of any queue: what stands
// before it in others has failed lately, and lets others go first, but its queue is not to miss its turns for that. Where the first
// of every queue has failed lately, as in a cluster that is full, all go by their order: work that has come last and has not failed
// yet would go before all that has waited for long, of its own queue and of those that have less. What has just failed is left out
// of that, unless there is nothing else: with no other work about, none waits for the end of a rest.
func (c *round) level() level {
	switch {
	case c.led > 0:
		return ready
	case len(c.waiting[yielding]) > 0:
		return yielding
	default:
		return failed
	}
}

// goes has what a workload asks for count for its queue.
func (c *round) goes(w *waiter) {
	if c.underway[w.Queue] == nil {
		c.underway[w.Queue] = make(Request)
	}
	c.underway[w.Queue].add(w.Request)
}

// next has the next one go: of the queue whose turn it is the first by priority, then age.
func (t *turns) next(c *round, shares Shares, now time.Time) *waiter {
	at := c.level()
	names := t.withShare(c.waiting[at], at, shares)
	leaf, _ := shares.Next(t.firsts(names, at), c.underway)
	leaf, w := t.insteadOf(c, shares, leaf, at)
	l := t.lines[leaf]
	if l.isLedByReady() {
		c.led--
	}
	if w == nil {
		w = l[at].Items[0]
		if at == ready && !t.inVain[leaf].After(now) {
			w = l.before(w)
		}
	}
	w.early = w.level > at
	t.pass(w)
	c.goes(w)
	if l.isLedByReady() {
		c.led++
	}
	if len(l[w.level].Items) == 0 {
		c.waiting[w.level] = slices.DeleteFunc(c.waiting[w.level], func(name string) bool { return name == leaf })
	}
	return w
}

// inARow is after how many turns of a queue that came to nothing, one after the other, another queue has one, and after as many more what has
// not had any in that queue. Where there is so much for which there is no room that the first has rested before the last has been
// tried, nothing else would ever have one.
const inARow = longestBatch

// vainTurns are so many turns of a queue in a row. Given is true where another queue has had one for that.
type vainTurns struct {
	count int
	given bool
}

// insteadOf is the queue of which one of a level goes in place of the leaf whose turn it is, and what of it goes where that is not the
// first. What a queue without any share takes then, the leaf has had no use for.
func (t *turns) insteadOf(c *round, shares Shares, leaf string, at level) (string, *waiter) {
	vain := t.vain[leaf]
	if vain.count < inARow || vain.given && vain.count < 2*inARow {
		return leaf, nil
	}
	if !vain.given {
		vain.given = true
		t.vain[leaf] = vain
		others := slices.DeleteFunc(slices.Clone(c.waiting[at]), func(name string) bool { return name == leaf })
		// One that is as badly off is no better a choice.
		hopeful := slices.DeleteFunc(slices.Clone(others), func(name string) bool { return t.vain[name].count >= inARow })
		if len(hopeful) > 0 {
			others = hopeful
		}
		if other, ok := shares.Next(t.firsts(t.withShare(others, at, shares), at), c.underway); ok {
			return other, nil
		}
	}
	delete(t.vain, leaf)
	return leaf, t.lines[leaf].untried()
}

// withShare are those of some queues that are entitled to something of what their first of a level asks for; all where none is. The others
// have the least of it, and would go first, and what they take is reclaimed for those that wait behind them.
func (t *turns) withShare(queues []string, at level, shares Shares) []string {
	if len(queues) < 2 {
		return queues
	}
	out := make([]string, 0, len(queues))
	for _, name := range queues {
		if shares.HasShare(t.lines[name][at].Items[0].Waiter) {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return queues
	}
	return out
}

// firsts lists the first workload of a level in each of some queues.
func (t *turns) firsts(queues []string, at level) []Waiter {
	out := make([]Waiter, len(queues))
	for i, name := range queues {
		out[i] = t.lines[name][at].Items[0].Waiter
	}
	return out
}

// pass has a waiter go. If it was called back before, it is not turned away for that any more: it waits for no other turn, and
// nothing would have it come again.
func (t *turns) pass(w *waiter) {
	t.leave(w)
	t.admitted[w.Key] = w
	delete(t.batch.called, w.Key)
}

// OthersWait reports whether work waits for the turn of another queue, or goes next, that which backs off left out.
func (l *List) OthersWait(queue string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.settle(now)
	for name, line := range l.turns.lines {
		if name != queue && len(line[ready].Items) > 0 {
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
		if w.seen < since[w.Queue] && shares.Entitled(w.Waiter) {
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
		waiting[name] = line.len()
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
