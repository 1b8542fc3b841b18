package core

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// simulation is the state of the cluster that a search changes and restores: free room by node,
// removed units, and placed members. If a class is stateful, the simulation makes the same changes
// in the Oracle's state.
type simulation struct {
	*problem
	// free is the free room, with dims values per node.
	free []int64
	// out is true for the removed units.
	out []bool
	// placed has the number of placed members, by class and node; nil for a class without placed
	// members.
	placed [][]int32
	// pool has the potential victims that outUpTo removes, least important first.
	pool []int32
	// gone is the number of units at the start of pool that are removed.
	gone int
	// packed is the number of steps of all backtracking searches.
	packed int
}

// placement is one placed member: its class and its node.
type placement struct {
	class int
	node  int32
}

// newSimulation returns a simulation with all units in place. free is the free room of the nodes,
// with or without the room of terminating pods.
func newSimulation(v *problem, free []int64) *simulation {
	t := &simulation{
		problem: v, free: slices.Clone(free), out: make([]bool, len(v.s.Units)),
		placed: make([][]int32, len(v.wanted)),
	}
	return t
}

func (t *simulation) freeOf(node int32) []int64 { return t.free[int(node)*t.dims:][:t.dims] }

// shift adds the requests of a unit to the free room of its nodes, or subtracts them if sign is -1.
func (t *simulation) shift(unit int32, sign int64) {
	if col, at, ok := t.c.lone(unit); ok {
		free := t.freeOf(at.node)
		before, after := col.sum(int(at.pos), t.dims), col.sum(int(at.pos)+1, t.dims)
		for r := range free {
			free[r] += sign * (after[r] - before[r])
		}
		return
	}
	pods := t.s.Units[unit].Pods
	for i := range pods {
		if pods[i].Node < 0 {
			continue
		}
		free := t.freeOf(int32(pods[i].Node))
		for r, v := range pods[i].Request {
			free[r] += sign * fairshare.Used(v)
		}
	}
}

// remove removes a unit from its nodes. It does nothing if the unit is already removed.
func (t *simulation) remove(unit int32) {
	if t.out[unit] {
		return
	}
	t.out[unit] = true
	t.meter.add(1)
	t.shift(unit, 1)
	if t.anyStateful {
		t.oracle.RemoveUnit(int(unit))
	}
}

// restore puts a removed unit back on its nodes. It does nothing if the unit is not removed.
func (t *simulation) restore(unit int32) {
	if !t.out[unit] {
		return
	}
	t.out[unit] = false
	t.meter.add(1)
	t.shift(unit, -1)
	if t.anyStateful {
		t.oracle.RestoreUnit(int(unit))
	}
}

func (t *simulation) removeAll(units []int32) {
	for _, u := range units {
		t.remove(u)
	}
}

func (t *simulation) restoreAll(units []int32) {
	for _, u := range units {
		t.restore(u)
	}
}

func (t *simulation) place(st placement) {
	free := t.freeOf(st.node)
	for r, v := range t.wanted[st.class] {
		free[r] -= v
	}
	if t.placed[st.class] == nil {
		t.placed[st.class] = make([]int32, len(t.s.Nodes))
	}
	t.placed[st.class][st.node]++
	if t.anyStateful {
		t.oracle.Place(st.class, int(st.node))
	}
}

func (t *simulation) unplace(st placement) {
	free := t.freeOf(st.node)
	for r, v := range t.wanted[st.class] {
		free[r] += v
	}
	t.placed[st.class][st.node]--
	if t.anyStateful {
		t.oracle.Unplace(st.class, int(st.node))
	}
}

func (t *simulation) placeAll(placements []placement) {
	for _, st := range placements {
		t.place(st)
	}
}

func (t *simulation) unplaceAll(placements []placement) {
	for _, st := range slices.Backward(placements) {
		t.unplace(st)
	}
}

// occupied reports whether a node has a placed member of any class.
func (t *simulation) occupied(node int32) bool {
	for c := range t.placed {
		if len(t.placed[c]) > 0 && t.placed[c][node] > 0 {
			return true
		}
	}
	return false
}

// roomFor returns how many members of a class fit on a node. The result is limited to most. It does
// not call Oracle.Fits.
func (t *simulation) roomFor(class int, node int32, most int) int {
	if !t.c.sound[node] {
		return 0
	}
	count := howMany(t.wanted[class], t.freeOf(node), most)
	if count == 0 || !t.admitsNode(class, node) {
		return 0
	}
	return count
}

// accepts reports whether a node has room for one more member of a class, and the oracle accepts
// the member.
func (t *simulation) accepts(class int, node int32) bool {
	return t.roomFor(class, node, 1) == 1 && (!t.stateful[class] || t.keepsSkew(class, node) && t.oracle.Fits(class, int(node)))
}

// touches reports whether members depend on a unit by more than its room.
func (t *simulation) touches(unit int32) bool { return t.anyStateful && t.oracle.Touches(int(unit)) }

// holdsAt reports whether a node has enough room for all its placed members.
func (t *simulation) holdsAt(node int32) bool {
	free := t.freeOf(node)
	for c := range t.placed {
		if len(t.placed[c]) == 0 || t.placed[c][node] == 0 {
			continue
		}
		for r, v := range t.wanted[c] {
			if v > 0 && free[r] < 0 {
				return false
			}
		}
	}
	return true
}

// holds reports whether a placed member still passes its filters in the current state.
func (t *simulation) holds(st placement) bool {
	if !t.stateful[st.class] {
		return t.holdsAt(st.node)
	}
	t.unplace(st)
	ok := t.accepts(st.class, st.node)
	t.place(st)
	return ok
}

// reordered sorts placed members so that each passes its filters next to the members before it. If
// there is no such order, it returns false and changes nothing.
func (t *simulation) reordered(placements []placement) ([]placement, bool) {
	for _, st := range placements {
		if !t.holdsAt(st.node) {
			return nil, false
		}
	}
	if !t.anyStateful {
		return placements, true
	}
	t.unplaceAll(placements)
	order, ok := t.inOrder(placements)
	if !ok {
		t.placeAll(placements)
	}
	return order, ok
}
