package scheduler

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// An order among queues changes as work is placed, so it cannot be that of the scheduler's queue, which is a heap. The
// work of the queues is held back in PreEnqueue therefore, and let through one by one, always the first of the queue
// whose turn it is.
const (
	// turnWindow is how many gangs and pods are let through and not decided on yet. The scheduler's queue has an order
	// of its own for more than one.
	turnWindow = 1
	// turnPatience is how long one of them may take before another one goes: it may have failed where nobody was told,
	// or other work of the scheduler's queue comes first. What it asks for counts for the order until it has taken
	// longestTurn.
	turnPatience, longestTurn = time.Second, 10 * time.Second
	// turnLull is how long nobody has to come before anybody goes, and longestLull how long that is waited for: when
	// room turns up, all that waited for it come at once, one by one. While there is always somebody whose turn it is,
	// nothing is waited for.
	turnLull, longestLull = 10 * time.Millisecond, 200 * time.Millisecond
	// firstRest and longestRest are how long work whose turn came to nothing lets others go first, doubled each time.
	firstRest, longestRest = time.Second, 10 * time.Second
)

// mostEased is how many of a queue are woken at a time because shares have changed in their favour, the first in order.
// The others have their turn a moment later.
const mostEased = 20

// turns holds back the work of the queues. It is safe for concurrent use.
type turns struct {
	mu sync.Mutex
	// held waits for its turn, line by line of a queue; through has had it, and underway is not decided on yet.
	held     map[owner]*waiter
	lines    map[string]*line
	through  map[owner]*waiter
	underway map[owner]*waiter
	// resting are those whose last turn came to nothing.
	resting map[owner]*waiter
	// wanted has a token while there may be somebody to let through.
	wanted chan struct{}
	// last is when somebody was let through last.
	last time.Time
}

// waiter is a gang or pod that waits.
type waiter struct {
	owner    owner
	queue    string
	priority int32
	since    time.Time
	request  queue.Amounts
	// place is where it stands in its line.
	place int
	// began is when it was let through, and seen how the queues stood then.
	began time.Time
	seen  uint64
	// failures counts the turns in a row that came to nothing; until rested, others go first.
	failures int
	rested   time.Time
	// came is when it began to wait, and told whether anybody has been told of it.
	came time.Time
	told bool
}

func newTurns() *turns {
	return &turns{
		held: make(map[owner]*waiter), lines: make(map[string]*line), through: make(map[owner]*waiter), underway: make(map[owner]*waiter),
		resting: make(map[owner]*waiter), wanted: make(chan struct{}, 1),
	}
}

// admit reports whether an owner has had its turn in a queue. It waits for it from now on otherwise.
func (t *turns) admit(o owner, queue string, describe func() *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w, ok := t.through[o]; ok {
		if w.queue == queue {
			return true
		}
		delete(t.through, o)
		t.end(o)
	}
	if w, ok := t.held[o]; ok && w.queue != queue {
		t.leave(w)
	}
	if _, ok := t.held[o]; !ok {
		w := describe()
		if last := t.resting[o]; last != nil {
			w.failures, w.rested = last.failures, last.rested
		}
		delete(t.resting, o)
		t.held[o] = w
		if t.lines[w.queue] == nil {
			t.lines[w.queue] = &line{}
		}
		heap.Push(t.lines[w.queue], w)
		t.signal()
	}
	return false
}

// holds reports whether an owner waits for its turn.
func (t *turns) holds(o owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.held[o]
	return ok
}

// decided takes note that an owner has its place, or room is being made for it.
func (t *turns) decided(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(o)
}

// failed has an owner wait for another turn when it comes again.
func (t *turns) failed(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w, ok := t.through[o]; ok {
		delete(t.through, o)
		t.resting[o] = w
		w.rested = w.began.Add(min(firstRest<<min(w.failures, 10), longestRest))
		w.failures++
	}
	t.end(o)
}

// over has an owner wait for another turn if more of it comes: all of it that was to be placed has its place.
func (t *turns) over(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.through, o)
	t.end(o)
}

// rouse ends the rest of an owner for whom something has changed.
func (t *turns) rouse(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range [...]*waiter{t.held[o], t.resting[o]} {
		if w != nil {
			w.failures, w.rested = 0, time.Time{}
		}
	}
}

// forget drops an owner that is no more.
func (t *turns) forget(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w, ok := t.held[o]; ok {
		t.leave(w)
	}
	delete(t.through, o)
	delete(t.resting, o)
	t.end(o)
}

// leave takes a waiter out of its line.
func (t *turns) leave(w *waiter) {
	delete(t.held, w.owner)
	l := t.lines[w.queue]
	heap.Remove(l, w.place)
	if l.Len() == 0 {
		delete(t.lines, w.queue)
	}
}

// end has others go, if it was this owner's turn.
func (t *turns) end(o owner) {
	if _, ok := t.underway[o]; ok {
		delete(t.underway, o)
		t.signal()
	}
}

// signal has the next ones let through.
func (t *turns) signal() {
	select {
	case t.wanted <- struct{}{}:
	default:
	}
}

// settle returns when those who come have come, after a time in which nobody had a turn.
func (t *turns) settle(ctx context.Context, now time.Time) {
	t.mu.Lock()
	quiet := now.Sub(t.last) > longestLull
	t.mu.Unlock()
	if !quiet {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestLull)
	defer cancel()
	for last := -1; ; {
		t.mu.Lock()
		count := len(t.held)
		t.mu.Unlock()
		if count <= last {
			return
		}
		last = count
		select {
		case <-ctx.Done():
			return
		case <-time.After(turnLull):
		}
	}
}

// next lets owners through as long as there is room in the window. Promised is what has a place, by queue, that the
// standing does not know of. Without a standing nobody is held back.
func (t *turns) next(standing *queue.Standing, promised map[string]queue.Amounts, now time.Time) []owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	prompt := 0
	for o, w := range t.underway {
		switch took := now.Sub(w.began); {
		case took > longestTurn:
			delete(t.underway, o)
		case took <= turnPatience:
			prompt++
		}
	}
	var out []owner
	for name, l := range t.lines {
		if standing != nil && standing.HasLeaf(name) {
			continue
		}
		// They have nothing to wait for. Where the queue is not there, they are to hear it.
		for l.Len() > 0 {
			w := (*l)[0]
			t.leave(w)
			t.through[w.owner] = w
			out = append(out, w.owner)
		}
	}
	for ; len(t.held) > 0 && prompt < turnWindow; prompt++ {
		w := t.first(standing, promised, now)
		t.leave(w)
		t.through[w.owner], t.underway[w.owner] = w, w
		t.last, w.began, w.seen = now, now, standing.At()
		out = append(out, w.owner)
	}
	return out
}

// first is the next one in order, of those in a leaf: of the queue whose turn it is by priority, then age. A queue whose
// first one has just failed lets others go before it: it would stand in their way each time that something changes.
func (t *turns) first(standing *queue.Standing, promised map[string]queue.Amounts, now time.Time) *waiter {
	waiting, underway := make(map[string]bool, len(t.lines)), make(map[string]queue.Amounts)
	for name, amounts := range promised {
		underway[name] = make(queue.Amounts)
		underway[name].Add(amounts)
	}
	for name, l := range t.lines {
		if !(*l)[0].rested.After(now) {
			waiting[name] = true
		}
	}
	if len(waiting) == 0 {
		for name := range t.lines {
			waiting[name] = true
		}
	}
	for _, w := range t.underway {
		if underway[w.queue] == nil {
			underway[w.queue] = make(queue.Amounts)
		}
		underway[w.queue].Add(w.request)
	}
	leaf, _ := standing.Next(waiting, underway)
	return (*t.lines[leaf])[0]
}

// othersWait reports whether work waits for the turn of another queue, that which has just failed left out.
func (t *turns) othersWait(queue string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, l := range t.lines {
		if name != queue && !(*l)[0].rested.After(now) {
			return true
		}
	}
	return false
}

// eased picks those whose last turn came to nothing and who may fare better since, because shares have changed: nothing
// else may happen in the cluster that would have them tried again.
func (t *turns) eased(standing *queue.Standing) []owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	since, ready := make(map[string]uint64), make(map[string][]*waiter)
	for _, w := range t.resting {
		if _, ok := since[w.queue]; !ok {
			since[w.queue] = standing.Eased(w.queue)
		}
		if w.seen < since[w.queue] && standing.Entitled(w.queue, w.request) {
			ready[w.queue] = append(ready[w.queue], w)
		}
	}
	var out []owner
	for _, waiters := range ready {
		slices.SortFunc(waiters, order)
		for _, w := range waiters[:min(len(waiters), mostEased)] {
			w.seen = standing.At()
			out = append(out, w.owner)
		}
	}
	return out
}

// line is the waiters of one queue, as a heap.
type line []*waiter

var _ heap.Interface = (*line)(nil)

// Len is part of heap.Interface.
func (l *line) Len() int { return len(*l) }

// Less is part of heap.Interface.
func (l *line) Less(i, j int) bool { return before((*l)[i], (*l)[j]) }

// Swap is part of heap.Interface.
func (l *line) Swap(i, j int) {
	(*l)[i], (*l)[j] = (*l)[j], (*l)[i]
	(*l)[i].place, (*l)[j].place = i, j
}

// Push is part of heap.Interface.
func (l *line) Push(x any) {
	if w, ok := x.(*waiter); ok {
		w.place = len(*l)
		*l = append(*l, w)
	}
}

// Pop is part of heap.Interface.
func (l *line) Pop() any {
	last := len(*l) - 1
	w := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return w
}

func before(a, b *waiter) bool { return order(a, b) < 0 }

// order is that inside a queue: by priority, then age.
func order(a, b *waiter) int {
	return cmp.Or(
		cmp.Compare(b.priority, a.priority), a.since.Compare(b.since),
		cmp.Compare(a.owner.Namespace, b.owner.Namespace), cmp.Compare(a.owner.Name, b.owner.Name),
	)
}

// takeTurns lets work through until ctx is done.
func (h *Hub) takeTurns(ctx context.Context) {
	ticker := time.NewTicker(turnPatience)
	defer ticker.Stop()
	for {
		ticked := false
		select {
		case <-ctx.Done():
			return
		case <-h.turns.wanted:
			h.turns.settle(ctx, h.clock.Now())
		case <-ticker.C:
			ticked = true
		}
		var standing *queue.Standing
		var promised map[string]queue.Amounts
		if h.board.Used() {
			standing = h.board.Standing(h.board.Resources())
			promised = h.board.Unplaced(h.promised(func(*corev1.Pod) bool { return false }))
		}
		if ticked && standing != nil {
			for _, o := range h.turns.eased(standing) {
				h.wake(o)
			}
			h.tellOfTurns()
		}
		for _, o := range h.turns.next(standing, promised, h.clock.Now()) {
			h.wake(o)
		}
	}
}

// waitsForTurn reports whether a pod has to wait for the turn of its queue.
func (h *Hub) waitsForTurn(pod *corev1.Pod) bool {
	if !h.board.Used() {
		return false
	}
	name := h.queueOf(pod)
	if name == "" || h.board.Check(name) != (gang.Verdict{}) {
		return false
	}
	o := h.ownerOf(pod)
	if o.gang && h.isPartlyThrough(o.NamespacedName) {
		// It has room already, of which nobody makes use before it is whole again.
		return false
	}
	held := false
	admitted := h.turns.admit(o, name, func() *waiter {
		held = true
		return h.describe(o, pod, name)
	})
	if held && h.hasLeft(o) {
		// It has been forgotten already, and would not be again.
		h.turns.forget(o)
	}
	return !admitted
}

// isPartlyThrough reports whether a gang has members on nodes, and fewer than it needs.
func (h *Hub) isPartlyThrough(key types.NamespacedName) bool {
	g, ok := h.groups.Group(key)
	if !ok {
		return false
	}
	members := h.members(key)
	through := h.through(key, &members)
	return through > 0 && through < g.MinCount
}

// hasLeft reports whether there is nobody of that name, as far as the informer knows.
func (h *Hub) hasLeft(o owner) bool {
	if o.gang {
		members := h.lister.Members(o.NamespacedName)
		return members.Total() == 0
	}
	_, err := h.pods.Pods(o.Namespace).Get(o.Name)
	return err != nil
}

// describe is what counts for the turn of a pod, or of the gang that it belongs to.
func (h *Hub) describe(o owner, pod *corev1.Pod, name string) *waiter {
	w := &waiter{
		owner: o, queue: name, priority: h.priorityOf(pod), since: pod.CreationTimestamp.Time, came: h.clock.Now(),
		request: queue.RequestOf(pod),
	}
	if g := h.gangOf(pod); o.gang && g != nil {
		// Members that stand for each other are alike enough for an order.
		one, members := queue.RequestOf(pod), h.members(g.Key)
		for range g.MinCount - h.through(g.Key, &members) - 1 {
			w.request.Add(one)
		}
	}
	return w
}
