package core

import "slices"

// plain is the algorithm of KEP-5710 to the letter. It places members by first fit. Its outcome
// competes with the outcomes of the other methods, so the final outcome never costs more. At the
// end, members may move to other nodes if a unit does not fit next to them.
func (g *gang) plain(level int32) (found, bool) {
	v := g.v
	if g.optimal && (!g.thorough || g.best.score.BrokenGangs == 0) {
		return found{}, false
	}
	if v.anyStateful && v.victims.count > plainUnits {
		return found{}, false
	}
	if v.c.budgeted {
		kept, ok := g.plainBudgets()
		if !ok {
			return found{}, false
		}
		if len(kept) > 0 {
			v = v.protecting(kept)
			if level, ok = v.ceiling(g.ws); !ok {
				return found{}, false
			}
		}
	}
	if g.counts {
		return g.plainCounted(v, level)
	}
	t := newSimulation(v, v.c.later)
	pool := v.eligible(level)
	sortByImportance(g.s, pool)
	t.removeAll(pool)
	r, ok := g.firstFit(t)
	if !ok {
		t.restoreAll(pool)
		return found{}, false
	}
	easy, hard := r.apart(pool)
	hard = append(hard, r.together(easy)...)
	sortByImportance(g.s, hard)
	var victims []int32
	for _, u := range hard {
		if !r.back(u) {
			victims = append(victims, u)
		}
	}
	r.inPlace = false
	f, ok := g.settle(t, r.placements, victims, victims)
	if !ok {
		t.restoreAll(victims)
		return found{}, false
	}
	t.restoreAll(f.victims)
	return f, true
}

// plainCounted does the work of plain for a gang with counts set. Only units on a node with a
// member can be in the way of a member, so it does not consider other units.
func (g *gang) plainCounted(v *problem, level int32) (found, bool) {
	t := newSimulation(v, v.c.later)
	t.clearBelow(int64(level) + 1)
	r, ok := g.firstFit(t)
	if !ok {
		return found{}, false
	}
	var near []int32
	for i, st := range r.placements {
		if i > 0 && st.node == r.placements[i-1].node {
			continue
		}
		col := v.column(st.node)
		for _, u := range slices.Backward(col.units[:col.count(min(int64(level)+1, v.victims.below))]) {
			if !t.out[u] {
				t.out[u] = true
				near = append(near, u)
			}
		}
	}
	if v.c.spanning {
		// Without budgets and with one pod per unit, nodes are independent, so the order matters
		// only within a node. A unit with several pods connects nodes: sort all units in this case.
		sortByImportance(g.s, near)
	}
	var victims []int32
	for _, u := range near {
		if !r.back(u) {
			victims = append(victims, u)
		}
	}
	t = newSimulation(v, v.c.later)
	t.removeAll(victims)
	return g.counted(t, victims)
}

// plainBudgets returns the units that fit next to the members and whose eviction would break a
// budget.
func (g *gang) plainBudgets() (kept []int32, ok bool) {
	t := newSimulation(g.v, g.v.c.later)
	all := g.v.eligible(int32(g.v.victims.below - 1))
	sortByImportance(g.s, all)
	t.removeAll(all)
	defer t.restoreAll(all)
	r, ok := g.firstFit(t)
	if !ok {
		return nil, false
	}
	breaking, _ := splitByBudgets(g.s, all)
	for _, u := range breaking {
		if r.back(u) {
			kept = append(kept, u)
		}
	}
	t.unplaceAll(r.placements)
	return kept, true
}

// firstFit places each member on the first node with room. Classes are sorted by the rank of their
// first member.
func (g *gang) firstFit(t *simulation) (*reprieving, bool) {
	ws := slices.Clone(g.ws)
	slices.SortFunc(ws, func(a, b want) int { return byRank(t.first(a.class), t.first(b.class)) })
	placements := t.fill(ws, firstFitOrder, nil)
	if len(placements) < total(g.ws) {
		t.unplaceAll(placements)
		var ok bool
		if placements, ok = t.pack(g.ws); !ok {
			return nil, false
		}
	}
	return &reprieving{simulation: t, ws: g.ws, placements: placements, inPlace: true}, true
}

// apart splits units into two lists. easy has the units without a pod on a member's node.
func (r *reprieving) apart(pool []int32) (easy, hard []int32) {
	for _, u := range pool {
		if r.touchesMembers(u) {
			hard = append(hard, u)
		} else {
			easy = append(easy, u)
		}
	}
	return easy, slices.Clip(hard)
}
