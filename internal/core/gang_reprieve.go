package core

import "slices"

// reprieving restores units if their nodes still have room next to the placed members.
type reprieving struct {
	*simulation
	ws         []want
	placements []placement
	// inPlace is true if members must not move to other nodes, as in KEP-5710.
	inPlace bool
	// spare has an upper bound for each class: the number of members that have room on other nodes.
	// It is nil until it is computed. full lists the classes whose members found no other node
	// while a unit was restored.
	spare, full []int
}

// run restores units of pool, which is sorted by importance. A unit stays restored if all members
// still have room. The result lists the units that stay removed, most important first.
//
// The units in chosen have the room that the members use. First, run tries to restore all other
// units together. Then it tries the units that are still removed one by one. Units whose eviction
// would break a disruption budget come first in this second step.
func (r *reprieving) run(pool, chosen []int32) []int32 {
	isChosen := make(map[int32]bool, len(chosen))
	for _, u := range chosen {
		isChosen[u] = true
	}
	var rest, hard []int32
	for _, u := range pool {
		if !r.out[u] {
			continue
		}
		if isChosen[u] || len(chosen) == 0 && r.touchesMembers(u) {
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

// together restores the units that conflict with no member and returns the others. It first
// restores all units at once, because each check considers all placements and takes long.
func (r *reprieving) together(units []int32) (trouble []int32) {
	if len(units) == 0 {
		return nil
	}
	r.restoreAll(units)
	if r.stand(r.placements) {
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

// stand reports whether the given placements have an order such that each member passes its
// filters. If so, this order becomes r.placements.
func (r *reprieving) stand(placements []placement) bool {
	order, ok := r.reordered(placements)
	if ok {
		r.placements = order
	}
	return ok
}

// touchesMembers reports whether a unit has a pod on a node with a member.
func (r *reprieving) touchesMembers(u int32) bool {
	pods := r.s.Units[u].Pods
	for i := range pods {
		if n := pods[i].Node; n >= 0 && r.occupied(int32(n)) {
			return true
		}
	}
	return false
}

// back restores one unit, and reports whether the members still fit. If members are in the way and
// fit on other nodes, they move there.
func (r *reprieving) back(u int32) bool {
	if r.spare == nil && !r.inPlace {
		r.mayHaveRoom(nil)
	}
	r.restore(u)
	var refused []placement
	if r.unitFits(u) {
		if !r.touches(u) {
			return true
		}
		if refused = r.refusedBeside(u); len(refused) == 0 && r.stand(r.placements) {
			return true
		}
	}
	if !r.inPlace && (r.moveAside(refused) || r.repack()) {
		return true
	}
	r.remove(u)
	r.tellFull()
	return false
}

// tellFull sets spare to 0 for the classes in full that still have no room on other nodes. The
// caller has removed the restored unit again.
func (r *reprieving) tellFull() {
	for _, c := range r.full {
		if !r.mayMove(c) {
			r.spare[c] = 0
		}
	}
	r.full = r.full[:0]
}

// mayMove reports whether members of a class may have room on other nodes.
func (r *reprieving) mayMove(c int) bool {
	i := slices.IndexFunc(r.placements, func(st placement) bool { return st.class == c })
	st := r.placements[i]
	r.unplace(st)
	defer r.place(st)
	return r.roomFor(c, st.node, 2) > 1 || slices.ContainsFunc(r.c.byName, func(n int32) bool {
		return n != st.node && r.roomFor(c, n, 1) > 0 && r.accepts(c, n)
	})
}

// refusedBeside lists the members on a unit's nodes that the oracle now rejects. It checks only
// classes that do not depend on the order of placement. If the result is not empty, a check of all
// members is not needed.
func (r *reprieving) refusedBeside(u int32) (refused []placement) {
	pods := r.s.Units[u].Pods
	for i := range pods {
		n := int32(pods[i].Node)
		if n < 0 || i > 0 && pods[i].Node == pods[i-1].Node {
			continue
		}
		for c := range r.placed {
			if len(r.placed[c]) == 0 || r.placed[c][n] == 0 || !r.stateful[c] || len(r.topologies[c]) > 0 {
				continue
			}
			if st := (placement{class: c, node: n}); !r.holds(st) {
				refused = append(refused, st)
			}
		}
	}
	return refused
}

// unitFits reports whether the room on a unit's nodes is still enough for their members.
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

// moveAside moves the refused members to other nodes. If refused is empty, it moves all members
// that their nodes no longer accept. If not all of them find a node, it undoes the moves and
// returns false.
func (r *reprieving) moveAside(refused []placement) bool {
	if r.spare != nil && !slices.ContainsFunc(r.spare, func(members int) bool { return members > 0 }) {
		return false
	}
	stay, displaced := r.displace(refused)
	counts := make([]int, len(r.wanted))
	for _, st := range displaced {
		counts[st.class]++
	}
	if r.mayHaveRoom(counts) {
		fresh := r.fill(r.hardestFirst(counts), fullestFirst, nil)
		all := len(fresh) == len(displaced)
		if all && r.stand(slices.Concat(stay, fresh)) {
			r.spare, r.full = nil, r.full[:0]
			return true
		}
		r.unplaceAll(fresh)
		switch {
		case all && len(refused) > 0:
			// The unit is in the way of members on other nodes too.
			r.placeAll(displaced)
			return r.moveAside(nil)
		case len(fresh) == 0 && len(displaced) > 0 && counts[displaced[0].class] == len(displaced):
			r.full = append(r.full, displaced[0].class)
		}
	}
	r.placeAll(displaced)
	return false
}

// displace removes members from the simulation. If refused is not empty, it removes the refused
// members. Otherwise it removes the members on nodes with too little room. If there are none, it
// removes the members that the oracle rejects.
func (r *reprieving) displace(refused []placement) (stay, displaced []placement) {
	part := func(holds func(placement) bool) {
		stay, displaced = stay[:0], nil
		for _, st := range r.placements {
			if holds(st) {
				stay = append(stay, st)
			} else {
				r.unplace(st)
				displaced = append(displaced, st)
			}
		}
	}
	if len(refused) > 0 {
		part(func(st placement) bool { return !slices.Contains(refused, st) })
		return stay, displaced
	}
	part(func(st placement) bool { return r.holdsAt(st.node) })
	if len(displaced) == 0 {
		part(r.holds)
	}
	return stay, displaced
}

// mayHaveRoom reports whether the given number of members per class may find room on other nodes.
// It computes spare only once: restored units only reduce the room, so the old upper bounds stay
// valid.
func (r *reprieving) mayHaveRoom(counts []int) bool {
	if r.spare == nil {
		r.spare = make([]int, len(r.wanted))
		for c := range r.spare {
			for _, n := range r.c.byName {
				r.spare[c] += r.roomFor(c, n, len(r.placements))
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

// repack removes all members and packs them again, if their number and the number of nodes are
// within Limits. It reports whether all members are placed. If not, it restores the old placements.
func (r *reprieving) repack() bool {
	if len(r.placements) > r.limits.PackingMembers || len(r.c.byName) > r.limits.PackingNodes || len(r.ws) == 1 && !r.anyStateful {
		return false
	}
	r.unplaceAll(r.placements)
	if placements, ok := r.pack(r.ws); ok {
		r.placements, r.spare = placements, nil
		return true
	}
	r.placeAll(r.placements)
	return false
}
