package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Admit admits the next queued workloads to scheduling and returns them in order. A turn lasts from
// a workload's admission until the scheduler has decided on it. New turns begin only if every turn
// under way has taken longer than patience. If there is room for all queued work, Admit gives free
// passes instead.
//
// Admit also admits work of queues that do not exist, so that the scheduler can report that the
// queue is missing. If shares is nil, there are no queues, and all work is admitted.
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
			// All turns under way have taken longer than patience. While turns take so long, the
			// order inside a larger batch would be outdated before its last turn.
			t.batch.most = 1
		}
		out = append(out, t.admit(shares, now)...)
	}
	return out
}

// prompt returns the number of turns that began at most patience ago. It drops turns that have
// taken longer than longestTurn.
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

// outsiders admits all work whose queue does not exist in the tree of queues.
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

// unchecked returns the queues with waiting work that have not been looked up in the current
// tree of queues.
func (t *turns) unchecked(shares Shares) []string {
	fresh := slices.Collect(maps.Keys(t.fresh))
	clear(t.fresh)
	switch {
	case shares == nil:
		// The next tree of queues may have any version.
		t.listed = 0
	case shares.Listed() == t.listed:
		return fresh
	default:
		t.listed = shares.Listed()
	}
	return slices.Collect(maps.Keys(t.lines))
}

// round is a summary of the waiting work, made once for each batch and updated with each
// admission.
type round struct {
	// waiting lists, for each level, the queues that have work of that level.
	waiting [levels][]string
	// led is the number of queues whose first workload is ready.
	led int
	// underway maps each leaf queue to the sum of the requests of its admitted workloads that
	// have no decision yet.
	underway map[string]Request
}

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

// level returns the level of the next workload to admit:
//
//   - ready, if the first workload of any queue is ready. The ready work of all queues then
//     competes for the next turn, even if another workload of the same queue comes first and has
//     failed lately. Without this rule, a queue whose first workload failed would miss turns.
//   - yielding, if the first workload of every queue failed lately, as in a full cluster.
//     Yielding work keeps its order, so that new work does not overtake work that has waited
//     for long.
//   - failed, if the turns of all waiting workloads have just failed.
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

// goes adds the request of an admitted workload to its queue's sum in underway.
func (c *round) goes(w *waiter) {
	if c.underway[w.Queue] == nil {
		c.underway[w.Queue] = make(Request)
	}
	c.underway[w.Queue].add(w.Request)
}

// next begins the turn of the next workload and returns it. Shares choose the queue; inside the
// queue, the order is by priority, then age.
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

// inARow limits the consecutive failed turns of a queue. After that number, another queue gets a
// turn. After inARow further failures, the turn goes to a workload of the queue whose turns have
// never failed.
//
// Without these two rules, a queue with much unplaceable work would use all turns. Its first
// workload would end its back-off and get another turn before its last workload has had one.
const inARow = longestBatch

// failedTurns counts the consecutive failed turns of a queue. given is true if another queue
// has had a turn because of these failures.
type failedTurns struct {
	count int
	given bool
}

// insteadOf returns the queue that gets the turn of the given leaf queue. It returns leaf itself
// until too many turns of leaf have failed; see inARow. If the returned waiter is nil, the turn
// goes to the first workload of the returned queue. The returned queue may have no fair share of
// the requested resources. It gets the turn nevertheless, because the failed turns have shown that
// leaf cannot use the room.
func (t *turns) insteadOf(c *round, shares Shares, leaf string, at level) (string, *waiter) {
	vain := t.vain[leaf]
	if vain.count < inARow || vain.given && vain.count < 2*inARow {
		return leaf, nil
	}
	if !vain.given {
		vain.given = true
		t.vain[leaf] = vain
		others := slices.DeleteFunc(slices.Clone(c.waiting[at]), func(name string) bool { return name == leaf })
		// Prefer queues with fewer than inARow failed turns.
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

// withShare returns the queues that have a fair share of every resource that their first
// workload of a level requests. If there are none, it returns all queues.
//
// Queues without a share use the least of these resources, so the order by usage would put them
// first. But other queues would then reclaim the room from these queues at once.
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

// firsts returns the first workload of a level from each of the queues.
func (t *turns) firsts(queues []string, at level) []Waiter {
	out := make([]Waiter, len(queues))
	for i, name := range queues {
		out[i] = t.lines[name][at].Items[0].Waiter
	}
	return out
}

// pass admits a waiter without beginning a turn. It drops an earlier recall of the workload. If
// pass kept the recall, TurnAway would reject the admitted workload, and no event would retry it.
func (t *turns) pass(w *waiter) {
	t.leave(w)
	t.admitted[w.Key] = w
	delete(t.batch.called, w.Key)
}

// OthersWait reports whether any other queue has ready work that waits for its turn, or has a
// turn that began at most patience ago.
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

// mostEased is the maximum number of workloads of one queue that RetryForShares returns in a
// call. Later calls return the remaining workloads.
const mostEased = 20

// RetryForShares returns workloads whose last turn failed and that may succeed now, because the
// fair shares have changed. The caller must retry them, because no other event may do so.
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
	// untoldTime is the time that a workload waits for its first turn before Unreported returns it.
	// After the first turn, the scheduler reports the reason for the wait.
	untoldTime = 10 * time.Second
	// mostTold is the maximum number of workloads that a call of Unreported returns.
	mostTold = 20
)

// Unreported returns workloads that have waited for their first turn for at least untoldTime.
// It returns each workload once. It also returns the number of waiting workloads of each queue.
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
