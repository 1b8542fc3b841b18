package core

import "slices"

// reprieving brings units back around seated members.
type reprieving struct {
	*trial
	ws    []want
	seats []seat
	// inPlace keeps every member where it is, as the document does.
	inPlace bool
	// spare is at least what each class has room for elsewhere; nil when not known.
	spare []int
}

// run brings units of pool (most important first) back wherever the members have room afterwards, and
// returns those that cannot come back, most important first. Units whose eviction would break a disruption
// budget are tried before all others; within both, the most important first. A unit comes back whole or not
// at all.
//
// sunk are the units that members have been seated for; all others are expected to come back.
func (r *reprieving) run(pool, sunk []int32) []int32 {
	isSunk := make(map[int32]bool, len(sunk))
	for _, u := range sunk {
		isSunk[u] = true
	}
	var rest, hard []int32
	for _, u := range pool {
		if !r.out[u] {
			continue
		}
		if isSunk[u] || len(sunk) == 0 && r.touchesSeats(u) {
			hard = append(hard, u)
		} else {
			rest = append(rest, u)
		}
	}
	hard = append(hard, r.together(rest)...)
	sortByImportance(r.s, hard)
	breaking, others := splitByBudgets(r.s, hard)
	var victims []int32
	for _, u := range slices.Concat(breaking, others) {
		if !r.back(u) {
			victims = append(victims, u)
		}
	}
	sortByImportance(r.s, victims)
	return victims
}

// together brings back units that are no trouble, all at once where possible, since every look at all seats
// costs as much as there are members. It returns the ones that are trouble.
func (r *reprieving) together(units []int32) (trouble []int32) {
	if len(units) == 0 {
		return nil
	}
	r.restoreAll(units)
	if r.allHold(r.seats) {
		return nil
	}
	for _, u := range slices.Backward(units) {
		r.remove(u)
	}
	if len(units) == 1 {
		return units
	}
	half := len(units) / 2
	return append(r.together(units[:half]), r.together(units[half:])...)
}

// touchesSeats reports whether a unit stands on a node with a member.
func (r *reprieving) touchesSeats(u int32) bool {
	pods := r.s.Units[u].Pods
	for i := range pods {
		if n := pods[i].Node; n >= 0 && r.occupied(int32(n)) {
			return true
		}
	}
	return false
}

func (r *reprieving) occupied(n int32) bool {
	for c := range r.seated {
		if r.seated[c][n] > 0 {
			return true
		}
	}
	return false
}

// back restores one unit: in place if it can; if members stand in its way that fit elsewhere just as well,
// they move. So every victim in the end is one without which the preemptor has no room.
func (r *reprieving) back(u int32) bool {
	if r.spare == nil && !r.inPlace {
		r.mayHaveRoom(nil)
	}
	r.restore(u)
	if r.unitFits(u) && (!r.anyStateful || r.allHold(r.seats)) {
		return true
	}
	if !r.inPlace && (r.resettle() || r.reseat()) {
		return true
	}
	r.remove(u)
	return false
}

// unitFits reports whether the members on a unit's nodes keep their room.
func (r *reprieving) unitFits(u int32) bool {
	if _, at, ok := r.c.lone(u); ok {
		return r.holdsAt(at.node)
	}
	pods := r.s.Units[u].Pods
	for i := range pods {
		if n := pods[i].Node; n >= 0 && !r.holdsAt(int32(n)) {
			return false
		}
	}
	return true
}

// resettle moves the members that no longer hold to other nodes with room. It reports false, with
// everything as it was, where they cannot all be seated.
func (r *reprieving) resettle() bool {
	stay, displaced := r.displace()
	counts := make([]int, len(r.wanted))
	for _, st := range displaced {
		counts[st.class]++
	}
	if r.mayHaveRoom(counts) {
		fresh := r.fill(r.hardestFirst(counts), fullestFirst)
		if len(fresh) == len(displaced) && r.allHold(stay) {
			r.seats = slices.Concat(stay, fresh)
			r.spare = nil
			return true
		}
		r.unplaceAll(fresh)
	}
	r.placeAll(displaced)
	return false
}

// displace takes the members off their nodes that no longer hold there: those without room or, where all
// have room, those that the oracle refuses now.
func (r *reprieving) displace() (stay, displaced []seat) {
	part := func(holds func(seat) bool) {
		stay, displaced = stay[:0], nil
		for _, st := range r.seats {
			if holds(st) {
				stay = append(stay, st)
			} else {
				r.unplace(st)
				displaced = append(displaced, st)
			}
		}
	}
	part(func(st seat) bool { return r.holdsAt(st.node) })
	if len(displaced) == 0 {
		part(r.holds)
	}
	return stay, displaced
}

// mayHaveRoom is a quick look at whether members of each class could move at all. Units only come back, so
// what there was no room for once has none later either, until members have moved.
func (r *reprieving) mayHaveRoom(counts []int) bool {
	if r.spare == nil {
		r.spare = make([]int, len(r.wanted))
		for c := range r.spare {
			for _, n := range r.c.byName {
				r.spare[c] += r.roomFor(c, n, len(r.seats))
			}
		}
	}
	for c, n := range counts {
		if n > r.spare[c] {
			return false
		}
	}
	return true
}

// reseat starts over with all members, in a small case.
func (r *reprieving) reseat() bool {
	if len(r.seats) > r.limits.PackingMembers || len(r.c.byName) > r.limits.PackingNodes || len(r.ws) == 1 && !r.anyStateful {
		return false
	}
	r.unplaceAll(r.seats)
	if seats, ok := r.seatAll(r.ws); ok {
		r.seats, r.spare = seats, nil
		return true
	}
	r.placeAll(r.seats)
	return false
}
