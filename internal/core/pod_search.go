package core

import (
	"cmp"
	"math"
	"slices"
)

// bestDomain returns the outcome of the cheapest search domain (KEP-5710, "Split the cluster into
// mutually-exclusive domains"). For a pod, each node is a search domain. For a gang, the search
// domains are the topology domains that it may use, or the whole cluster if it requires none.
func (sr *search) bestDomain() (found, bool) {
	if sr.v.domains != nil {
		return sr.cheapestDomain((*search).wholeCluster)
	}
	if sr.p.Gang {
		return sr.wholeCluster()
	}
	return sr.newNodeSearch().run()
}

// found is the outcome of a search in one search domain.
type found struct {
	// ws are the members to place. placements are their nodes; nil until they are chosen.
	ws         []want
	placements []placement
	victims    []int32
	ceiling    int32
	score      Score
	// proven is true if certainly no cheaper set of victims exists.
	proven bool
	// domain is the topology domain of the placements; nil without a required domain. compared has
	// the results for all domains that the search compared.
	domain   *domain
	compared []domainOutcome
	// cascade counts the evictions by the victims' replacements; nil if not computed.
	cascade *Cascade
}

// onlyClass returns the first class with members. For a single pod, this is the only class with
// members.
func (sr *search) onlyClass() int {
	return slices.IndexFunc(sr.p.Classes, func(c Class) bool { return len(c.Members) > 0 })
}

// prospect is a node that has room if its potential victims are evicted, with lower bounds of the
// cost. ceiling is the exact ceiling of the outcome if the oracle rejects no member. least is a
// lower bound of the number of victims.
type prospect struct {
	node    int32
	ceiling int32
	// leading is a lower bound of the first criterion after the ceiling: the lost work if the
	// search counts it, otherwise the sum of priorities. The struct is small because searches sort
	// thousands of prospects.
	leading int64
	least   int
}

// nodeSearch is the search for a single pod. It selects victims on one node after the other, in the
// order of lower bounds. It stops if no remaining bound is better than the best outcome.
type nodeSearch struct {
	*search
	class int
	x     *nodeVictims
	// roomy is true if some node has enough free room without evictions. The oracle rejected the
	// pod on each such node.
	roomy bool
	best  found
	any   bool
	// losses computes the lost work of units; nil if the search does not count lost work.
	losses *losses
	// prospects are the nodes that the search may try next.
	prospects []prospect
	// starts and units are scratch space.
	starts []int64
	units  []int32
}

func (sr *search) newNodeSearch() *nodeSearch {
	n := &nodeSearch{
		search: sr, class: sr.onlyClass(), x: newNodeVictims(sr.v, sr.v.newBudgetDraw()), roomy: sr.roomy, losses: sr.s.losses,
	}
	n.x.seesGangs = sr.thorough
	return n
}

// quickRounds is the number of rounds that try only the nodes with the lowest ceiling. After that,
// the search sorts all nodes.
const quickRounds = 3

// searched returns the nodes to search.
func (n *nodeSearch) searched() []int32 {
	if n.roomy {
		return n.v.c.byName
	}
	// Nodes without potential victims cannot help, because no node has enough free room.
	return n.nodes
}

func (n *nodeSearch) run() (found, bool) {
	left := n.searched()
	for range quickRounds {
		var ceiling int32
		ceiling, left = n.lowestCeiling(left)
		n.tryAll()
		if n.any && n.best.score.BrokenBudgets == 0 && n.best.score.HighestPriority <= ceiling {
			n.best.proven = !n.x.unproven
			return n.best, true
		}
	}
	n.prospects = n.prospects[:0]
	for _, node := range left {
		if pr, ok := n.prospect(node, n.v.victims.below); ok {
			n.prospects = append(n.prospects, pr)
		}
	}
	n.tryAll()
	n.best.proven = !n.x.unproven
	return n.best, n.any
}

// lowestCeiling sets the prospects to the nodes with the lowest ceiling. It returns this ceiling
// and the other nodes, which have a higher ceiling or too little room.
func (n *nodeSearch) lowestCeiling(nodes []int32) (ceiling int32, others []int32) {
	below := n.v.victims.below
	others = make([]int32, 0, len(nodes))
	n.prospects = n.prospects[:0]
	for _, node := range nodes {
		pr, ok := n.prospect(node, below)
		if !ok {
			others = append(others, node)
			continue
		}
		if len(n.prospects) > 0 && pr.ceiling < n.prospects[0].ceiling {
			for _, tied := range n.prospects {
				others = append(others, tied.node)
			}
			n.prospects = n.prospects[:0]
		}
		n.prospects = append(n.prospects, pr)
		below = int64(pr.ceiling) + 1
	}
	if len(n.prospects) == 0 {
		return math.MinInt32, others
	}
	return n.prospects[0].ceiling, others
}

// prospect computes lower bounds of the cost of a node. It returns false if the node has not enough
// room even if all potential victims with a priority lower than below are evicted.
func (n *nodeSearch) prospect(node int32, below int64) (prospect, bool) {
	v := n.v
	if !v.c.sound[node] {
		return prospect{}, false
	}
	room, wanted, widest := v.freeLater(node), v.wanted[n.class], v.c.widest[int(node)*v.dims:][:v.dims]
	if n.roomy && fits(wanted, room) {
		return prospect{node: node, ceiling: math.MinInt32}, true
	}
	col := v.column(node)
	k := col.count(min(below, v.victims.below))
	if k == 0 || !fitsTogether(wanted, room, col.sum(k, v.dims)) {
		return prospect{}, false
	}
	lo, hi := 1, k
	// Suppose that the eviction of all units with lower priorities than col.priorities[k-1] does
	// not free enough room. Then this priority is the ceiling, and the binary search ends at once.
	if before := col.count(int64(col.priorities[k-1])); !fitsTogether(wanted, room, col.sum(before, v.dims)) {
		lo = k
	} else {
		hi = before
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if fitsTogether(wanted, room, col.sum(mid, v.dims)) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	pr := prospect{node: node, ceiling: col.priorities[lo-1], least: 1}
	for r, want := range wanted {
		if short := want - room[r]; want > 0 && short > 0 && widest[r] > 0 {
			pr.least = max(pr.least, int(min((short-1)/widest[r]+1, int64(k))))
		}
	}
	if n.losses != nil {
		pr.leading = n.quickLost(pr)
	} else {
		pr.leading = n.leastSum(pr)
	}
	return pr, true
}

// leastSum returns a lower bound of the sum of priorities of the victims on the prospect's node.
func (n *nodeSearch) leastSum(pr prospect) int64 {
	sum := int64(pr.ceiling) + priorityOffset
	if pr.least > 1 {
		for _, priority := range n.v.column(pr.node).priorities[:pr.least-1] {
			sum += int64(priority) + priorityOffset
		}
	}
	return sum
}

// quickLost returns a lower bound of the lost work of the victims on the prospect's node. It uses
// only the loss table and does not look at the units.
func (n *nodeSearch) quickLost(pr prospect) int64 {
	l := n.losses
	if l.table == nil || len(l.paid) > 0 && l.table.nodes[pr.node].grouped {
		return 0
	}
	return l.table.atLeast(pr.node, pr.least, l.now)
}

// leastLost returns a lower bound of the lost work of the victims on the prospect's node. Every set
// of victims there has at least pr.least units. So one bound is the sum of the pr.least lowest
// values of losses.least. The other bound is the k-th lowest value of losses.alone, where k is
// pr.least. In every set of k units, at least one unit has this value or a higher one. Such a value
// may include the work of a whole gang. These values must not be added up, because two units may
// break the same gang. The result is the higher of the two bounds.
func (n *nodeSearch) leastLost(pr prospect) (lost int64) {
	col := n.v.column(pr.node)
	// If the class depends only on room, no unit above the ceiling is evicted. For a stateful
	// class, the eviction of any potential victim may be needed.
	count := col.count(int64(pr.ceiling) + 1)
	if n.v.stateful[n.class] {
		count = col.count(n.v.victims.below)
	}
	units, fewest := col.units[:count], min(pr.least, count)
	for _, least := range n.fewest(units, fewest, n.losses.least) {
		// Limit the sum to maxLoss. It is still a lower bound, because the lost work of a set has
		// the same limit.
		lost = min(lost+least, maxLoss)
	}
	if len(n.v.s.gangs) > 0 && fewest > 0 {
		lost = max(lost, n.fewest(units, fewest, n.losses.alone)[fewest-1])
	}
	return lost
}

// fewest calls the function of for each of the given units. It returns the lowest results, count in
// total, in ascending order. The result is valid until the next call.
func (n *nodeSearch) fewest(units []int32, count int, of func(u int32) int64) []int64 {
	n.starts = n.starts[:0]
	for _, u := range units {
		n.starts = append(n.starts, of(u))
	}
	slices.Sort(n.starts)
	return n.starts[:count]
}

// tryAll tries the prospects in the order of their lower bounds. If the search counts lost work, it
// tries one prospect first. The lost work of nearly every node is different, so few prospects then
// remain to sort.
func (n *nodeSearch) tryAll() {
	if n.losses != nil {
		n.tryFirst()
		for i := range n.prospects {
			n.prospects[i].leading = n.leastLost(n.prospects[i])
		}
		n.tryFirst()
	}
	slices.SortFunc(n.prospects, n.compare)
	for _, pr := range n.prospects {
		c := n.againstBest(pr)
		if c > 0 {
			return
		}
		if (c < 0 || n.mayBeBetter(pr)) && n.v.admitsNode(n.class, pr.node) {
			n.try(pr)
		}
	}
}

// compare orders prospects by their lower bounds, then by the name of the node.
func (n *nodeSearch) compare(a, b prospect) int {
	if c := cmp.Or(cmp.Compare(a.ceiling, b.ceiling), cmp.Compare(a.leading, b.leading)); c != 0 {
		return c
	}
	if n.losses != nil {
		if c := cmp.Compare(n.leastSum(a), n.leastSum(b)); c != 0 {
			return c
		}
	}
	return cmp.Compare(n.v.c.rank[a.node], n.v.c.rank[b.node])
}

// againstBest compares the lower bounds of a prospect with the best outcome so far. The result is
// positive if the node cannot be better. It is 0 if the node can at best be equal by the leading
// criteria.
func (n *nodeSearch) againstBest(pr prospect) int {
	best := &n.best.score
	if !n.any || best.BrokenBudgets > 0 {
		return -1
	}
	if c := cmp.Compare(pr.ceiling, best.HighestPriority); c != 0 {
		return c
	}
	if n.losses == nil {
		return cmp.Compare(pr.leading, best.PrioritySum)
	}
	return cmp.Or(cmp.Compare(pr.leading, best.LostWork), cmp.Compare(n.leastSum(pr), best.PrioritySum))
}

// tryFirst tries the prospect with the lowest bounds. Then it removes the prospects that cannot be
// better.
func (n *nodeSearch) tryFirst() {
	if len(n.prospects) == 0 {
		return
	}
	first := slices.MinFunc(n.prospects, n.compare)
	if n.againstBest(first) <= 0 && n.v.admitsNode(n.class, first.node) {
		n.try(first)
	}
	n.prospects = slices.DeleteFunc(n.prospects, func(pr prospect) bool {
		return pr.node == first.node || n.againstBest(pr) > 0
	})
}

// mayBeBetter reports whether a node may be better by the later criteria, if its leading criteria
// equal the best outcome. Among equal outcomes, the first node by name is chosen.
func (n *nodeSearch) mayBeBetter(pr prospect) bool {
	best := &n.best.score
	if best.BrokenGangs > 0 && (n.thorough || n.losses != nil) {
		return true
	}
	if surplus := min(best.Pods, n.v.surplusUpTo(n.v.column(pr.node), int64(pr.ceiling))); surplus != best.Surplus {
		return surplus > best.Surplus
	}
	if least := n.leastRepeated(pr); least != best.Repeated {
		return least < best.Repeated
	}
	if latest := n.latestStart(pr); latest != best.EarliestStart {
		return latest > best.EarliestStart
	}
	return pr.least < best.Pods || n.v.c.rank[pr.node] < n.v.c.rank[n.best.placements[0].node]
}

// leastRepeated returns a lower bound of Score.Repeated for the victims on the prospect's node.
func (n *nodeSearch) leastRepeated(pr prospect) int {
	// If the class depends only on room, no unit above the ceiling is evicted. For a stateful
	// class, the eviction of any potential victim may be needed.
	below := int64(pr.ceiling) + 1
	if n.v.stateful[n.class] {
		below = n.v.victims.below
	}
	counts := n.v.stopsBelow(n.v.column(pr.node), below)
	return counts.least(pr.least)
}

// latestStart returns an upper bound of Score.EarliestStart: the earliest start of the victims with
// the highest priority.
func (n *nodeSearch) latestStart(pr prospect) int64 {
	col := n.v.column(pr.node)
	from, to := col.count(int64(pr.ceiling)), col.count(int64(pr.ceiling)+1)
	if from == to {
		return math.MaxInt64
	}
	// The variable from counts the units with a lower priority than the ceiling. Even if all of
	// them are victims, at least nth victims have the priority of the ceiling.
	nth := max(1, pr.least-from)
	n.starts = append(n.starts[:0], col.starts[from:to]...)
	if nth > len(n.starts) {
		return math.MaxInt64
	}
	descending := func(a, b int64) int { return cmp.Compare(b, a) }
	if !slices.IsSortedFunc(n.starts, descending) {
		slices.SortFunc(n.starts, descending)
	}
	return n.starts[nth-1]
}

// try searches the prospect's node and keeps the outcome if it is the best so far.
func (n *nodeSearch) try(pr prospect) {
	set, score, ok := n.workOut(pr)
	if !ok || n.any && cmp.Or(better(score, n.best.score), cmp.Compare(n.v.c.rank[pr.node], n.v.c.rank[n.best.placements[0].node])) >= 0 {
		return
	}
	n.any = true
	n.best = n.outcome(pr.node, set, score)
}

// workOut selects the victims on the prospect's node. It returns their positions on the node, which
// are valid until the next call.
func (n *nodeSearch) workOut(pr prospect) ([]int32, Score, bool) {
	v, x := n.v, n.x
	col := v.column(pr.node)
	potential := x.potential[:0]
	for i := range col.count(v.victims.below) {
		potential = append(potential, int32(i))
	}
	x.floor, x.check = pr, nil
	if v.stateful[n.class] {
		x.check = &nodeCheck{class: n.class, node: int(pr.node)}
	}
	set, score, ok := n.cheapest(col, pr.node, potential)
	score.BrokenGangs = len(brokenGangs(v.s, n.unitsAt(col, set)))
	return set, score, ok
}

// outcome returns the outcome for a node if the units at the given positions are evicted.
func (n *nodeSearch) outcome(node int32, set []int32, score Score) found {
	return found{
		ws: []want{{class: n.class, count: 1}}, placements: []placement{{class: n.class, node: node}},
		victims: slices.Clone(n.unitsAt(n.v.column(node), set)), score: score, ceiling: score.HighestPriority,
	}
}

// cheapest finds the cheapest set of potential victims on a node that frees enough room. If the
// policy does not allow the eviction of all of them together, it searches three lists until it
// finds an allowed set. The first list has all potential victims. The second has the least
// important units that may be evicted together. The third has the most important units that may be
// evicted together.
func (n *nodeSearch) cheapest(col *nodeColumn, node int32, potential []int32) ([]int32, Score, bool) {
	room, wanted := n.v.freeLater(node), n.v.wanted[n.class]
	orders := 1
	if n.policy.bounded() {
		orders = 2
	}
	for i := range orders {
		part := n.policy.part(col, potential)
		if i == 0 && len(part) < len(potential) {
			if set, score, ok := n.x.solve(col, room, wanted, potential); ok && n.allowedAt(col, set) {
				return set, score, true
			}
		}
		if set, score, ok := n.x.solve(col, room, wanted, part); ok && n.allowedAt(col, set) {
			return set, score, true
		}
		slices.Reverse(potential)
	}
	return nil, Score{}, false
}

// allowedAt reports whether the policy allows the eviction of the units at the given positions
// together.
func (n *nodeSearch) allowedAt(col *nodeColumn, set []int32) bool {
	return n.allowed(n.unitsAt(col, set))
}

// unitsAt lists the units at the given positions of a node. The result is valid until the next
// call.
func (n *nodeSearch) unitsAt(col *nodeColumn, set []int32) []int32 {
	n.units = n.units[:0]
	for _, pos := range set {
		n.units = append(n.units, col.units[pos])
	}
	return n.units
}
