package scheduler

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

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
	// or other work of the scheduler's queue comes first.
	turnPatience = time.Second
	// turnLull is how long nobody has to come before anybody goes, and longestLull how long that is waited for: when
	// room turns up, all that waited for it come at once, one by one. While there is always somebody whose turn it is,
	// nothing is waited for.
	turnLull, longestLull = 10 * time.Millisecond, 200 * time.Millisecond
)

// turns holds back the work of the queues. It is safe for concurrent use.
type turns struct {
	mu sync.Mutex
	// held waits for its turn; through has had it, and underway is not decided on yet.
	held     map[owner]*waiter
	through  sets.Set[owner]
	underway map[owner]*waiter
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
	// began is when it was let through.
	began time.Time
}

func newTurns() *turns {
	return &turns{
		held: make(map[owner]*waiter), through: sets.New[owner](), underway: make(map[owner]*waiter), wanted: make(chan struct{}, 1),
	}
}

// admit reports whether an owner has had its turn. It waits for it from now on otherwise.
func (t *turns) admit(o owner, describe func() *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.through.Has(o) {
		return true
	}
	if _, ok := t.held[o]; !ok {
		t.held[o] = describe()
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
	t.through.Delete(o)
	t.end(o)
}

// forget drops an owner that is no more.
func (t *turns) forget(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, o)
	t.through.Delete(o)
	t.end(o)
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
	for o, w := range t.underway {
		if now.Sub(w.began) > turnPatience {
			delete(t.underway, o)
		}
	}
	var out []owner
	for o, w := range t.held {
		if standing != nil && !standing.HasLeaf(w.queue) {
			// It has nothing to wait for, and is to hear what is wrong.
			delete(t.held, o)
			t.through.Insert(o)
			out = append(out, o)
		}
	}
	for len(t.held) > 0 && (standing == nil || len(t.underway) < turnWindow) {
		w := t.first(standing, promised)
		delete(t.held, w.owner)
		t.through.Insert(w.owner)
		t.last = now
		if w.began = now; standing != nil {
			t.underway[w.owner] = w
		}
		out = append(out, w.owner)
	}
	return out
}

// first is the next one in order: of the queue whose turn it is by priority, then age.
func (t *turns) first(standing *queue.Standing, promised map[string]queue.Amounts) *waiter {
	waiting, underway := make(map[string]bool), make(map[string]queue.Amounts)
	for name, amounts := range promised {
		underway[name] = make(queue.Amounts)
		underway[name].Add(amounts)
	}
	for _, w := range t.held {
		waiting[w.queue] = true
	}
	for _, w := range t.underway {
		if underway[w.queue] == nil {
			underway[w.queue] = make(queue.Amounts)
		}
		underway[w.queue].Add(w.request)
	}
	leaf := ""
	if standing != nil {
		leaf, _ = standing.Next(waiting, underway)
	}
	var best *waiter
	for _, w := range t.held {
		if (standing == nil || w.queue == leaf) && (best == nil || before(w, best)) {
			best = w
		}
	}
	return best
}

func before(a, b *waiter) bool {
	return cmp.Or(
		cmp.Compare(b.priority, a.priority), a.since.Compare(b.since),
		cmp.Compare(a.owner.Namespace, b.owner.Namespace), cmp.Compare(a.owner.Name, b.owner.Name),
	) < 0
}

// takeTurns lets work through until ctx is done.
func (h *Hub) takeTurns(ctx context.Context) {
	ticker := time.NewTicker(turnPatience)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.turns.wanted:
			h.turns.settle(ctx, h.clock.Now())
		case <-ticker.C:
		}
		var standing *queue.Standing
		var promised map[string]queue.Amounts
		if h.board.Used() {
			standing = h.board.Standing(h.board.Resources())
			promised = h.board.Unplaced(h.promised(func(*corev1.Pod) bool { return false }))
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
	return !h.turns.admit(o, func() *waiter { return h.describe(o, pod, name) })
}

// describe is what counts for the turn of a pod, or of the gang that it belongs to.
func (h *Hub) describe(o owner, pod *corev1.Pod, name string) *waiter {
	w := &waiter{owner: o, queue: name, priority: h.priorityOf(pod), since: pod.CreationTimestamp.Time, request: queue.RequestOf(pod)}
	if g := h.gangOf(pod); o.gang && g != nil {
		// Members that stand for each other are alike enough for an order.
		one := queue.RequestOf(pod)
		for range g.MinCount - 1 {
			w.request.Add(one)
		}
	}
	return w
}
