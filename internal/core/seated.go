package core

import "slices"

// seated is the search where classes compete for nodes, or other pods matter. Arithmetic proposes nodes by
// what it costs to free them; the members are seated there one by one, with the oracle's consent where it
// has a say; then units come back around them. In t nothing is seated, before and afterwards.
func (g *gang) seated(t *trial, level int32) (found, bool) {
	t.outUpTo(int64(level))
	pool := slices.Clone(t.pool[:t.gone])
	slices.Reverse(pool)
	seats, sunk, ok := g.seatCheaply(t, level)
	if !ok {
		t.removeAll(pool)
		if seats, ok = t.seatAll(g.ws); !ok {
			return found{}, false
		}
		sunk = nil
	}
	f := g.settle(t, seats, pool, sunk)
	t.restoreAll(f.victims)
	t.gone = 0
	return f, true
}

// settle reprieves all that can come back around seated members, and takes the members off again. The
// victims are still out of the trial.
func (g *gang) settle(t *trial, seats []seat, pool, sunk []int32) found {
	if t.anyStateful && !t.allHold(seats) {
		// A group that came back for the sake of one node may be in the way on another.
		t.removeAll(pool)
	}
	r := &reprieving{trial: t, ws: g.ws, seats: seats}
	victims := r.run(pool, sunk)
	t.unplaceAll(r.seats)
	return g.outcome(victims, slices.Clone(r.seats))
}

// arithmetic is the view without the oracle's view of other pods. What it learns of nodes stays apart.
func (v *view) arithmetic() *view {
	w := *v
	w.stateful, w.anyStateful = make([]bool, len(v.stateful)), false
	return &w
}

// seatCheaply seats all members on nodes that are cheap to free. All of the pool is out of t. On success
// the members are placed in t and the units that had to go for them are returned; otherwise t is unchanged
// but for units that have come back.
func (g *gang) seatCheaply(t *trial, level int32) (seats []seat, sunk []int32, ok bool) {
	// plan knows only room, and has everything in place that has not been sunk.
	plan := newTrial(t.arithmetic(), t.c.later)
	for _, w := range g.ws {
		m := newMarket(plan, w, level)
		got, ok := m.seat(t)
		seats = append(seats, got...)
		sunk = append(sunk, m.sunk...)
		if !ok {
			t.unplaceAll(seats)
			return nil, nil, false
		}
		for _, st := range got {
			plan.place(st)
		}
	}
	return seats, sunk, true
}

// seat buys room for a class and seats its members in t, where the whole pool is out. Nodes on which other
// potential victims would be in a member's way are put off until nothing else is left.
func (m *market) seat(t *trial) (seats []seat, ok bool) {
	on := make([]int, len(m.s.Nodes))
	var putOff []int32
	for len(seats) < m.need {
		if !m.buy() {
			if len(putOff) == 0 {
				return seats, false
			}
			for _, n := range putOff {
				m.unlimit(n)
				m.reoffer(n)
			}
			putOff = nil
			m.lastResort = true
			continue
		}
		for _, n := range m.fullest(on) {
			for on[n] < int(m.caps[n]) && len(seats) < m.need {
				if !m.lastResort && !m.undisturbed(t, n) {
					putOff = append(putOff, n)
					m.limit(n, on[n])
					break
				}
				if !t.accepts(m.class, n) {
					m.limit(n, on[n])
					break
				}
				st := seat{class: m.class, node: n}
				t.place(st)
				seats = append(seats, st)
				on[n]++
			}
		}
	}
	return seats, true
}

// reoffer makes the offer of a node anew.
func (m *market) reoffer(n int32) {
	m.touched[n]++
	if o, ok := m.offer(n); ok {
		m.offers.push(o)
	}
}

// fullest lists the nodes with room for members beyond those that are on them, those with the least first.
func (m *market) fullest(on []int) []int32 {
	var nodes []int32
	for _, n := range m.c.byName {
		if int(m.caps[n]) > on[n] {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return int(m.caps[a]) - int(m.caps[b]) })
	return nodes
}

// undisturbed brings back what stands on a node and has not been sunk, and reports whether a member is
// accepted next to it. If not, all of it stays out.
func (m *market) undisturbed(t *trial, n int32) bool {
	if !t.stateful[m.class] {
		return true
	}
	var back []int32
	for _, u := range t.column(n).units {
		if t.out[u] && !m.out[u] {
			back = append(back, u)
		}
	}
	t.restoreAll(back)
	if t.accepts(m.class, n) {
		return true
	}
	t.removeAll(back)
	return false
}
