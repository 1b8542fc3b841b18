package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Admit begins the next turns once the previous turns are over. It returns the admitted workloads
// in order. If there is room for all queued work, Admit gives free passes.
//
// It also admits work of queues that do not exist, so that the reason can be reported. Nil shares
// mean that there are no queues, and admit all work.
func (l *List) Admit(shares Shares, now time.Time) []workload.Key {
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
			// Turns take long now, so the order of a larger batch would soon be outdated.
			t.batch.most = 1
		}
		out = append(out, t.admit(shares, now)...)
	}
	return out
}

// prompt counts the turns that began within the time patience. It ends turns that have taken too
// long.
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

// unchecked returns the queues with a line that have not been checked against the current tree.
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

// round has the facts about the waiting work that are read while a batch is selected.
type round struct {
	// waiting lists the queues that have work of each level. led is the number of queues whose
	// first workload is ready. underway has the requests of admitted workloads, by leaf.
	waiting  [levels][]string
	led      int
	underway map[string]Request
}

// round returns a summary of all queues.
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

// level returns the level of the next workload to admit. If the first workload of any queue is
// ready, ready work of any queue goes next. In other queues, work that failed lately may come
// before the ready work, and these queues must not miss turns for that.
//
// If the first workload of every queue failed lately, as in a full cluster, yielding work keeps its
// order. Otherwise new work would come before work that has waited for long, in its own queue and
// in queues with more usage. Work that has just failed is admitted only if there is no other work,
// so that no workload waits without need.
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

// goes adds the request of an admitted workload to the requests of its queue.
func (c *round) goes(w *waiter) {
	if c.underway[w.Queue] == nil {
		c.underway[w.Queue] = make(Request)
	}
	c.underway[w.Queue].add(w.Request)
}

// next begins the turn of the next workload: the first by priority, then age, of the queue whose
// turn it is.
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

// inARow is the number of turns of a queue that may fail in a row before another queue gets a turn.
// After as many further failures, a workload of the queue without a failed turn gets a turn.
// Without these two rules, a queue with much unplaceable work would use all turns: its first
// workload is ready again before its last one was tried.
const inARow = longestBatch

// failedTurns counts the failed turns of a queue in a row. given is true if another queue has had a
// turn because of these failures.
type failedTurns struct {
	count int
	given bool
}

// insteadOf returns the queue that gets a turn in place of the given leaf after failed turns. It
// also returns the workload if that is not the queue's first. The queue may have no share, because
// the leaf cannot use the room.
func (t *turns) insteadOf(c *round, shares Shares, leaf string, at level) (string, *waiter) {
	vain := t.vain[leaf]
	if vain.count < inARow || vain.given && vain.count < 2*inARow {
		return leaf, nil
	}
	if !vain.given {
		vain.given = true
		t.vain[leaf] = vain
		others := slices.DeleteFunc(slices.Clone(c.waiting[at]), func(name string) bool { return name == leaf })
		// Prefer queues without as many failed turns.
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

// withShare returns the queues with a share of every resource that their first workload of a level
// requests. If there are no such queues, it returns all. Queues without a share have the least
// usage of these resources, so they would come first. The queues after them would then reclaim the
// room.
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

// pass admits a waiter without a turn. It drops an earlier recall of the workload: TurnAway would
// report it, and nothing would retry the workload.
func (t *turns) pass(w *waiter) {
	t.leave(w)
	t.admitted[w.Key] = w
	delete(t.batch.called, w.Key)
}

// OthersWait reports whether other queues have ready work that waits for its turn, or a turn that
// began within patience.
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

// mostEased is how many workloads of a queue Eased returns at a time, the first in order. The
// others follow at later calls.
const mostEased = 20

// RetryForShares returns workloads whose last turn failed and that may succeed now, because shares
// have changed. There may be no other event to retry them.
func (l *List) RetryForShares(shares Shares) []workload.Key {
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
	// untoldTime is the time that work waits for its first turn before users are told. mostTold is
	// the maximum that Untold returns at a time. After the first turn, the scheduler reports
	// reasons itself.
	untoldTime = 10 * time.Second
	mostTold   = 20
)

// Unreported returns workloads that have waited long for their first turn, each once. It also
// counts all waiting workloads by queue.
func (l *List) Unreported(now time.Time) (picked []Waiter, waiting map[string]int) {
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
