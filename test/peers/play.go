package peers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// mostDecisions is the greatest number of decisions in one case.
const mostDecisions = 200

// ErrEndless is the error for a case whose workloads evict each other repeatedly.
var ErrEndless = errors.New("the workloads evict each other without end")

// Outcome is the final state of a case.
type Outcome struct {
	// Running maps the name of a workload to the number of its running pods.
	Running map[string]int
	// Nodes maps the name of a workload to the nodes of its running pods.
	Nodes map[string][]string
	// Messages maps the name of a pending workload to the message of the last decision for it.
	Messages map[string]string
}

// Play decides for the pending workloads of a case until no workload changes. It returns the final
// state.
func Play(c *Case) (*Outcome, error) {
	g, err := newGame(c)
	if err != nil {
		return nil, err
	}
	for range mostDecisions {
		w := g.next()
		if w == nil {
			return g.outcome(), nil
		}
		if err := g.decide(w); err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		if c.once {
			w.over = true
		}
	}
	return nil, ErrEndless
}

// game is the state of a case while Play runs it.
type game struct {
	c        *Case
	tree     *fairshare.Tree
	capacity core.Amounts
	bundles  fairshare.Bundles
	work     []*player
	// decisions is the number of decisions so far.
	decisions int64
}

// player is the present state of a workload.
type player struct {
	*Work
	// on has an index of a node for each pod; -1 if the pod does not run.
	on []int
	// leaves is true while the pods of the workload terminate.
	leaves bool
	// tried is true if the last decision for the workload found no room, and no workload has been
	// placed since then.
	tried bool
	// over is true if no more decisions are made for the workload.
	over bool
	// began orders running workloads by their start: a smaller number started earlier.
	began   int64
	message string
}

func newGame(c *Case) (*game, error) {
	g := &game{c: c, capacity: make(core.Amounts, len(c.Resources))}
	queues := make([]fairshare.Queue, len(c.Queues))
	for i, q := range c.Queues {
		queues[i] = fairshare.Queue{
			Name: q.Name, Parent: q.Parent, Quota: q.Quota, Weight: q.Weight, Priority: q.Priority,
			PreemptMinRuntime: fairshare.Unset, ReclaimMinRuntime: fairshare.Unset,
		}
		for _, v := range q.Limit {
			if v == unbounded {
				v = fairshare.Unlimited
			}
			queues[i].Limit = append(queues[i].Limit, v)
		}
	}
	// NewTree reduces a quota that exceeds the parent's quota, and reports an error. Ignore the
	// error.
	g.tree, _ = fairshare.NewTree(len(c.Resources), queues)
	for i := range c.Nodes {
		add(g.capacity, c.Nodes[i].Amounts, 1)
	}
	g.bundles = fairshare.NewBundles(c.Resources, g.nodesWith)
	for i := range c.Work {
		w := &c.Work[i]
		if w.Queue != "" && g.tree.LeafOf(w.Queue) < 0 {
			return nil, fmt.Errorf("%w: %s names the queue %q, which is no leaf", errFormat, w.Name, w.Queue)
		}
		p := &player{Work: w, leaves: w.Leaving, began: w.Since}
		for _, node := range w.On {
			p.on = append(p.on, slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == node }))
		}
		p.over = p.leaves || c.once && p.running() > 0
		g.work = append(g.work, p)
	}
	return g, nil
}

// nodesWith returns the sum of the amounts of all nodes that have a resource.
func (g *game) nodesWith(name string) fairshare.Amounts {
	out, of := make(core.Amounts, len(g.c.Resources)), slices.Index(g.c.Resources, name)
	for i := range g.c.Nodes {
		if a := g.c.Nodes[i].Amounts; a[of] > 0 {
			add(out, a, 1)
		}
	}
	return out
}

// running returns the number of running pods. Pods that terminate do not count.
func (p *player) running() (n int) {
	for _, node := range p.on {
		if node >= 0 && !p.leaves {
			n++
		}
	}
	return n
}

// next returns the workload for the next decision. The order is by queue, then by priority, then by
// age. It returns nil if each pending workload has been tried.
func (g *game) next() *player {
	byLeaf := make(map[int32]*player)
	var outside *player
	for _, p := range g.work {
		if p.tried || p.over || p.running() == len(p.Requests) {
			continue
		}
		leaf := g.tree.LeafOf(p.Queue)
		if leaf < 0 {
			if outside == nil || before(p, outside) {
				outside = p
			}
		} else if first := byLeaf[leaf]; first == nil || before(p, first) {
			byLeaf[leaf] = p
		}
	}
	if len(byLeaf) == 0 {
		return outside
	}
	var askers []fairshare.Asker
	for _, leaf := range slices.Sorted(maps.Keys(byLeaf)) {
		askers = append(askers, fairshare.Asker{Leaf: leaf, Request: byLeaf[leaf].needs()})
	}
	standing := &fairshare.Balance{Tree: g.tree, Shares: g.shares(), Allocated: g.allocated(), Capacity: g.capacity}
	leaf, _ := standing.Next(askers, nil)
	return byLeaf[leaf]
}

// before reports whether a decision for a is made before a decision for b, if both are in the same
// queue.
func before(a, b *player) bool {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Since, b.Since), cmp.Compare(a.Name, b.Name)) < 0
}

// missing returns the number of members that the next decision must place. Running members count
// towards minCount.
func (p *player) missing() int {
	if n := p.MinCount - p.running(); n > 0 {
		return n
	}
	return 0
}

// needs returns the sum of the requests of the members that the next decision must place.
func (p *player) needs() core.Amounts {
	sum, left := make(core.Amounts, len(p.Requests[0])), max(p.missing(), 1)
	for i, node := range p.on {
		if (node < 0 || p.leaves) && left > 0 {
			add(sum, p.Requests[i], 1)
			left--
		}
	}
	return sum
}

// allocated returns the usage of each queue, including the queues below it. The index is the index
// of the queue in the tree.
func (g *game) allocated() []core.Amounts {
	out := g.perQueue()
	for _, p := range g.work {
		for i, node := range p.on {
			if node < 0 {
				continue
			}
			for q := g.tree.LeafOf(p.Queue); q >= 0; q = g.tree.Parent(q) {
				add(out[q], p.Requests[i], 1)
			}
		}
	}
	return out
}

// shares returns the fair shares of the queues. The demand of a queue is the sum of the requests of
// its running pods, and of the pending pods that canRun accepts.
func (g *game) shares() []core.Amounts {
	demand, capacity := g.perQueue(), slices.Clone(g.capacity)
	for _, p := range g.work {
		leaf := g.tree.LeafOf(p.Queue)
		for i, node := range p.on {
			switch {
			case leaf < 0 && node >= 0:
				add(capacity, p.Requests[i], -1)
			case leaf >= 0 && (node >= 0 && !p.leaves || node < 0 && g.canRun(p, leaf)):
				add(demand[leaf], p.Requests[i], 1)
			}
		}
	}
	return g.tree.FairShares(capacity, g.bundles, demand)
}

func (g *game) perQueue() []core.Amounts {
	out := make([]core.Amounts, g.tree.Len())
	for q := range out {
		out[q] = make(core.Amounts, len(g.c.Resources))
	}
	return out
}

// canRun reports whether a workload fits in an empty cluster. Each pod must fit on some node.
// minCount pods must fit on all nodes together, and in the limits of the queues.
func (g *game) canRun(p *player, leaf int32) bool {
	sum := make(core.Amounts, len(g.c.Resources))
	for i, request := range p.Requests {
		if i < p.MinCount {
			add(sum, request, 1)
		}
		if !slices.ContainsFunc(g.c.Nodes, func(n Node) bool { return within(request, n.Amounts) }) {
			return false
		}
	}
	for q := leaf; q >= 0; q = g.tree.Parent(q) {
		if !within(sum, g.tree.Queue(q).Limit) {
			return false
		}
	}
	return within(sum, g.capacity)
}

func within(request, amounts []int64) bool {
	for r, v := range request {
		if v > amounts[r] {
			return false
		}
	}
	return true
}

// decide makes a decision for a workload and applies it.
func (g *game) decide(p *player) error {
	g.decisions++
	d, err := core.Decide(g.snapshot(), g.preemptor(p), core.Arithmetic{})
	if err != nil {
		return err
	}
	p.message = d.Message
	if d.Outcome == core.Infeasible {
		p.tried = true
		return nil
	}
	for i := range d.Victims {
		for _, pod := range d.Victims[i].Pods {
			g.evict(pod.UID)
		}
	}
	if d.Outcome == core.Waits {
		g.terminate()
	}
	for _, at := range d.Placements {
		for i := range p.Requests {
			if podName(p.Name, i) == at.UID {
				p.on[i] = slices.IndexFunc(g.c.Nodes, func(n Node) bool { return n.Name == at.Node })
			}
		}
	}
	p.began = math.MaxInt32 + g.decisions
	// A member past minCount that finds no room must not block other workloads. So try the other
	// workloads again if any member has been placed.
	progress := len(d.Placements) > 0
	for _, other := range g.work {
		other.tried = other.tried && !progress
	}
	p.tried = !progress || p.running() < len(p.Requests)
	return nil
}

// evict stops the pod with a UID.
func (g *game) evict(uid string) {
	for _, p := range g.work {
		for i := range p.on {
			if podName(p.Name, i) == uid {
				p.on[i] = -1
			}
		}
	}
}

// terminate ends the pods that terminate. They do not become pending.
func (g *game) terminate() {
	for _, p := range g.work {
		if p.leaves {
			for i := range p.on {
				p.on[i] = -1
			}
			p.tried = true
		}
	}
}

func (g *game) outcome() *Outcome {
	out := &Outcome{Running: make(map[string]int), Nodes: make(map[string][]string), Messages: make(map[string]string)}
	for _, p := range g.work {
		for _, node := range p.on {
			if node >= 0 {
				out.Nodes[p.Name] = append(out.Nodes[p.Name], g.c.Nodes[node].Name)
			}
		}
		out.Running[p.Name] = p.running()
		if p.running() < len(p.Requests) {
			out.Messages[p.Name] = p.message
		}
	}
	return out
}

func podName(work string, i int) string { return fmt.Sprintf("%s-%d", work, i) }

func add(to, amounts core.Amounts, sign int64) {
	for r, v := range amounts {
		to[r] += sign * v
	}
}
