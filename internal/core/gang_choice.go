package core

import (
	"cmp"
	"math"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/heap"
)

// choice selects the victims with priorities up to a ceiling, for a gang of one class that depends
// only on room. It decides how many additional members each node holds, and the units to evict
// there. Both decisions can be exact, because a unit with one pod and without budgets affects only
// its own node. See docs/design/victims-of-gangs.md.
//
// Over all nodes, this is a knapsack problem that takes one option of each node. relax computes the
// cheapest solution if the last step may be a fraction; its cost is a lower bound. The price per
// member of this last step decides the best option of nearly all nodes. For the few other nodes,
// exchange tries the alternatives.
type choice struct {
	*counter
	x     *nodeVictims
	level int64
	// unguarded is true if units with budgets must stay in place.
	unguarded bool
	// missing is the number of members without room before any eviction.
	missing int
	nodes   []choiceNode
	// after is a time in nanoseconds since 1970. Options whose earliest victim started at this time
	// or before are excluded. A solution whose total cost exceeds limit is useless, so relax stops
	// there.
	after int64
	limit price
	// proven becomes false if the search of a node or an exchange reaches its limit. effort is the
	// remaining number of steps for exchanges.
	proven bool
	effort int

	increments heap.Heap[increment]
	// spare is preallocated memory for the options of nodes.
	spare []nodeOption
	slab  slab[int32]
	room  []int64
	lost  []int64
}

// choiceNode is a node that can hold more members if units are evicted.
type choiceNode struct {
	node int32
	// now is the number of members that the node holds without evictions. most is the number of
	// members that it holds with all potential victims evicted.
	now, most int
	// options are the ways to free room on the node, sorted by gain. The first option has gain 0.
	// The field is nil until workOut sets it.
	options []nodeOption
	// base is the index of the option in the fractional solution. taken is the index of the final
	// option.
	base, taken int
}

// nodeOption is the cheapest set of units to evict so that a node holds gain more members.
type nodeOption struct {
	gain  int
	cost  setCost
	units []int32
}

// price is the cost of victims without their start times. Prices can be added and multiplied.
type price struct {
	lost, sum     int64
	pods, surplus int32
	repeated      int64
}

func (p price) compare(o price) int {
	return cmp.Or(
		cmp.Compare(p.lost, o.lost), cmp.Compare(p.sum, o.sum), cmp.Compare(p.pods, o.pods), cmp.Compare(o.surplus, p.surplus),
		cmp.Compare(p.repeated, o.repeated),
	)
}

func (p price) times(n int) price {
	return price{p.lost * int64(n), p.sum * int64(n), p.pods * int32(n), p.surplus * int32(n), p.repeated * int64(n)}
}

func (p price) minus(o price) price {
	return price{p.lost - o.lost, p.sum - o.sum, p.pods - o.pods, p.surplus - o.surplus, p.repeated - o.repeated}
}

func (p price) plus(o price) price {
	return price{p.lost + o.lost, p.sum + o.sum, p.pods + o.pods, p.surplus + o.surplus, p.repeated + o.repeated}
}

// leading returns the first part of the cost to compare: the lost work if the search counts it,
// otherwise the sum of priorities.
func (p price) leading(s *Snapshot) int64 {
	if s.losses != nil {
		return p.lost
	}
	return p.sum
}

// increment is the step from one option of a node to a later option. index is the node, to is the
// later option, and gain is the number of additional members. If to is 0, the increment is a
// placeholder for a node without computed options. A placeholder costs no more per member than the
// node's first real step.
type increment struct {
	index, to, gain int32
	// perMember is the leading part of the cost divided by gain, rounded to a float64.
	perMember float64
	cost      price
	start     int64
}

func (ch *choice) increment(index int32, to, gain int, cost price, start int64) increment {
	return increment{index, int32(to), int32(gain), float64(cost.leading(ch.s)) / float64(gain), cost, start}
}

// compare compares increments by their cost per member.
func (a *increment) compare(b *increment) int {
	if a.perMember != b.perMember {
		return cmp.Compare(a.perMember, b.perMember)
	}
	if a.gain == b.gain {
		return a.cost.compare(b.cost)
	}
	return a.cost.times(int(b.gain)).compare(b.cost.times(int(a.gain)))
}

// before reports whether a comes before b. It compares the cost per member, then puts placeholders
// first, then compares start and index.
func (a *increment) before(b *increment) bool {
	if d := a.compare(b); d != 0 {
		return d < 0
	}
	if known := a.to > 0; known != (b.to > 0) {
		return !known
	}
	// Nodes are sorted by name, so the index breaks ties.
	return a.start > b.start || a.start == b.start && a.index < b.index
}

// newChoice returns a choice that starts with the state of the simulation t: units that are removed
// there count as evicted.
func newChoice(t *simulation, w want, level int32) *choice {
	ch := &choice{
		counter: newCounter(t, w), x: newNodeVictims(t.problem, t.newBudgetDraw()), level: int64(level),
		after: math.MinInt64, limit: price{lost: math.MaxInt64, sum: math.MaxInt64}, proven: true, effort: exchangeEffort,
		room: make([]int64, t.dims),
	}
	ch.missing = ch.need - ch.total
	ch.increments.Before = (*increment).before
	return ch
}

// movable reports whether choice may evict or keep this unit. The unit must have only one pod.
func (ch *choice) movable(col *nodeColumn, pos int) bool {
	u := col.units[pos]
	if ch.out[u] || !col.alone && len(ch.s.Units[u].Pods) > 1 {
		return false
	}
	return !ch.unguarded || !draws(&ch.s.Units[u])
}

// run returns the units to evict. It returns false if the members do not fit even with all movable
// units evicted.
func (ch *choice) run() ([]int32, bool) {
	if ch.missing <= 0 {
		return nil, true
	}
	ch.list()
	best, ok := ch.cheapest()
	if !ok {
		return nil, false
	}
	ch.later(best)
	var units []int32
	for i := range ch.nodes {
		if n := &ch.nodes[i]; n.taken > 0 {
			units = append(units, n.options[n.taken].units...)
		}
	}
	return units, true
}

// list fills ch.nodes with the nodes that can hold more members.
func (ch *choice) list() {
	for _, n := range ch.c.byName {
		now := int(ch.caps[n])
		if !ch.c.sound[n] || now >= ch.need {
			continue
		}
		col := ch.column(n)
		copy(ch.room, ch.freeOf(n))
		last := col.count(min(ch.level+1, ch.victims.below))
		if col.alone && !ch.unguarded {
			for r, v := range col.sum(last, ch.dims) {
				ch.room[r] += v
			}
		} else {
			for i := range last {
				if ch.movable(col, i) {
					ch.release(col, i)
				}
			}
		}
		if most := howMany(ch.wanted[ch.class], ch.room, now+ch.missing); most > now && ch.admitsNode(ch.class, n) {
			ch.nodes = append(ch.nodes, choiceNode{node: n, now: now, most: most})
		}
	}
}

func (ch *choice) release(col *nodeColumn, pos int) {
	before, after := col.sum(pos, ch.dims), col.sum(pos+1, ch.dims)
	for r := range ch.room {
		ch.room[r] += after[r] - before[r]
	}
}

// cheapest computes the cheapest choice among the options that start later than after. It returns
// the cost, and sets taken of each node.
func (ch *choice) cheapest() (price, bool) {
	last, left, ok := ch.relax()
	if !ok {
		return price{}, false
	}
	for i := range ch.nodes {
		ch.nodes[i].taken = ch.nodes[i].base
	}
	ch.nodes[last.index].taken = int(last.to)
	ch.exchange(last, left)
	total := price{}
	for i := range ch.nodes {
		if n := &ch.nodes[i]; n.taken > 0 {
			total = total.plus(n.options[n.taken].cost.price)
		}
	}
	return total, true
}

// relax takes the increments with the lowest cost per member until there is room for all members.
// It returns the last increment, which is not included in base of its node. left is the number of
// members that are needed from the last increment.
func (ch *choice) relax() (last increment, left int, ok bool) {
	ch.start()
	spent := price{}
	for left = ch.missing; len(ch.increments.Items) > 0; {
		s := ch.increments.Items[0]
		// Stop if the total exceeds the limit. All later increments cost at least as much per
		// member.
		if s.perMember*float64(left) > float64(ch.limit.leading(ch.s)-spent.leading(ch.s))*(1+1e-9) {
			return increment{}, 0, false
		}
		switch {
		case s.to == 0:
			ch.workOut(s.index)
		case int(s.gain) >= left:
			return s, left, true
		default:
			left -= int(s.gain)
			spent = spent.plus(s.cost)
			ch.nodes[s.index].base = int(s.to)
		}
		if next, ok := ch.next(s.index); ok {
			ch.increments.Replace(next)
		} else {
			ch.increments.Pop()
		}
	}
	return increment{}, 0, false
}

// start fills the heap with one increment per node: the first real one, or a placeholder.
func (ch *choice) start() {
	ch.increments.Items = ch.increments.Items[:0]
	for i := range ch.nodes {
		n := &ch.nodes[i]
		n.base, n.taken = 0, 0
		if n.options == nil {
			b := ch.bound(int32(i))
			if n.most > n.now+1 || int(b.cost.pods) < ch.column(n.node).count(min(ch.level+1, ch.victims.below)) {
				ch.increments.Items = append(ch.increments.Items, b)
				continue
			}
			// The node has only one option, the eviction of all its units. Compute it now instead
			// of a placeholder.
			ch.workOut(int32(i))
		}
		if first, ok := ch.next(int32(i)); ok {
			ch.increments.Items = append(ch.increments.Items, first)
		}
	}
	ch.increments.Init()
}

// next returns the increment of node i, from its base, with the lowest cost per member. Among
// increments of equal cost, it returns the one with the most members.
func (ch *choice) next(i int32) (best increment, ok bool) {
	n := &ch.nodes[i]
	from := &n.options[n.base]
	for to := n.base + 1; to < len(n.options); to++ {
		o := &n.options[to]
		if o.cost.start <= ch.after {
			continue
		}
		s := ch.increment(i, to, o.gain-from.gain, o.cost.minus(from.cost.price), o.cost.start)
		if !ok || s.compare(&best) <= 0 {
			best, ok = s, true
		}
	}
	return best, ok
}

// bound returns the placeholder of node i. Its cost per member is a lower bound for all increments
// of the node.
func (ch *choice) bound(i int32) increment {
	var best increment
	ch.bounds(&ch.nodes[i], func(gain int, least price) {
		if b := ch.increment(i, 0, gain, least, math.MaxInt64); best.gain == 0 || b.compare(&best) < 0 {
			best = b
		}
	})
	return best
}

// bounds calls the function tell for each number of additional members, with a lower bound of the
// cost of room for these members on the node. The bound assumes that each evicted unit frees as
// much room as the largest unit. It uses the lowest priorities and the least lost work of the
// node's units.
func (ch *choice) bounds(n *choiceNode, tell func(gain int, least price)) {
	col, free := ch.column(n.node), ch.freeOf(n.node)
	surplus := int32(ch.surplusUpTo(col, ch.level))
	counts := ch.stopsBelow(col, min(ch.level+1, ch.victims.below))
	widest := ch.c.widest[int(n.node)*ch.dims:][:ch.dims]
	lost, most := ch.leastLost(col), int32(col.count(min(ch.level+1, ch.victims.below)))
	var least price
	for k := n.now + 1; k <= n.most; k++ {
		units := int64(0)
		for r, w := range ch.wanted[ch.class] {
			if short := w*int64(k) - free[r]; w > 0 && short > 0 && widest[r] > 0 {
				units = max(units, (short-1)/widest[r]+1)
			}
		}
		for ; least.pods < min(int32(units), most); least.pods++ {
			least.sum += weightOf(col.priorities[least.pods], 1)
			if lost != nil {
				least.lost += lost[least.pods]
			}
		}
		least.surplus, least.repeated = min(least.pods, surplus), int64(counts.least(int(least.pods)))
		tell(k-n.now, least)
	}
}

// leastLost returns the lost work of the units on a node up to the ceiling, in ascending order. It
// returns nil if the search does not count lost work. The result is valid until the next call.
func (ch *choice) leastLost(col *nodeColumn) []int64 {
	if ch.s.losses == nil {
		return nil
	}
	ch.lost = ch.lost[:0]
	for _, u := range col.units[:col.count(min(ch.level+1, ch.victims.below))] {
		ch.lost = append(ch.lost, ch.s.losses.charge(u))
	}
	slices.Sort(ch.lost)
	return ch.lost
}

// workOut computes the options of a node.
func (ch *choice) workOut(i int32) {
	n := &ch.nodes[i]
	col, free, wanted := ch.column(n.node), ch.freeOf(n.node), ch.wanted[ch.class]
	ch.load(n.node, wanted)
	n.options = append(ch.piece(1+n.most-n.now), nodeOption{cost: noCost()})
	for k := n.now + 1; k <= n.most; k++ {
		for r, w := range wanted {
			if ch.room[r] = 0; w > 0 {
				ch.room[r] = w*int64(k) - free[r]
			}
		}
		set, cost, proven, ok := ch.x.cover.solve(ch.room)
		if !ok {
			break
		}
		ch.proven = ch.proven && proven
		units := ch.slab.take(len(set))
		for i, pos := range set {
			units[i] = col.units[pos]
		}
		n.options = append(n.options, nodeOption{gain: k - n.now, cost: cost, units: units})
	}
}

// load prepares ch.x to find the cheapest units of node n, for members with the given request.
func (ch *choice) load(n int32, wanted []int64) {
	col, positions := ch.column(n), ch.x.potential[:0]
	for pos := range col.count(min(ch.level+1, ch.victims.below)) {
		if ch.movable(col, pos) {
			positions = append(positions, int32(pos))
		}
	}
	ch.x.potential = positions
	ch.x.cover.load(ch.x, col, positions, wanted, ch.level)
}

// piece returns an empty slice with capacity for count options.
func (ch *choice) piece(count int) []nodeOption {
	if len(ch.spare) < count {
		ch.spare = make([]nodeOption, max(count, min(2*len(ch.nodes), 4096)))
	}
	piece := ch.spare[:0:count]
	ch.spare = ch.spare[count:]
	return piece
}

// later looks for a choice with equal cost whose earliest victim started later.
func (ch *choice) later(best price) {
	starts := ch.startsAfter(ch.earliest())
	taken := make([]int, len(ch.nodes))
	ch.limit = best
	for i := range ch.nodes {
		taken[i] = ch.nodes[i].taken
	}
	// Usually no choice with equal cost has a later start. So the binary search begins with the
	// earliest of the starts.
	for lo, hi, mid := 0, len(starts), 0; lo < hi; mid = (lo + hi) / 2 {
		ch.after = starts[mid] - 1
		if total, ok := ch.cheapest(); !ok || total != best {
			hi = mid
			continue
		}
		lo = mid + 1
		for i := range ch.nodes {
			taken[i] = ch.nodes[i].taken
		}
	}
	for i := range ch.nodes {
		ch.nodes[i].taken = taken[i]
	}
}

// earliest returns the earliest start of the victims in the final options.
func (ch *choice) earliest() int64 {
	start := int64(math.MaxInt64)
	for i := range ch.nodes {
		if n := &ch.nodes[i]; n.taken > 0 {
			start = min(start, n.options[n.taken].cost.start)
		}
	}
	return start
}

// startsAfter lists the starts of all options that start later than the given time.
func (ch *choice) startsAfter(start int64) []int64 {
	var starts []int64
	for i := range ch.nodes {
		for _, o := range ch.nodes[i].options {
			if o.gain > 0 && o.cost.start > start {
				starts = append(starts, o.cost.start)
			}
		}
	}
	slices.Sort(starts)
	return slices.Compact(starts)
}
