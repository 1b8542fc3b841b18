package core

import (
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// simulation is the state of the cluster that a search changes and takes back: free room by node, which units
// are out, and where members stand. Where other pods matter to a member, it keeps the Oracle's simulation state
// in step; where they do not, the Oracle is left alone.
type simulation struct {
	*view
	// free holds dims values for each node.
	free []int64
	// out marks the units that are removed.
	out []bool
	// placed counts the members of each class on each node; nil for a class of which none has been placed.
	placed [][]int32
	// pool are the potential victims that outUpTo moves, least important first; the first gone ones are out.
	pool []int32
	gone int
	// packed counts the steps of all backtracking searches.
	packed int
}

// placement is one member's place: a member of class on node.
type placement struct {
	class int
	node  int32
}

// newSimulation starts with everything where it is, the leaving pods included or not.
func newSimulation(v *view, free []int64) *simulation {
	t := &simulation{
		view: v, free: slices.Clone(free), out: make([]bool, len(v.s.Units)),
		placed: make([][]int32, len(v.wanted)),
	}
	return t
}

func (t *simulation) freeOf(node int32) []int64 { return t.free[int(node)*t.dims:][:t.dims] }

// shift adds a unit's use of its nodes to their room, or takes it away.
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

// remove takes a unit out, on all its nodes.
func (t *simulation) remove(unit int32) {
	if t.out[unit] {
		return
	}
	t.out[unit] = true
	t.shift(unit, 1)
	if t.anyStateful {
		t.oracle.RemoveUnit(int(unit))
	}
}

// restore puts a unit back where it was.
func (t *simulation) restore(unit int32) {
	if !t.out[unit] {
		return
	}
	t.out[unit] = false
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

// occupied reports whether a member stands on a node.
func (t *simulation) occupied(node int32) bool {
	for c := range t.placed {
		if len(t.placed[c]) > 0 && t.placed[c][node] > 0 {
			return true
		}
	}
	return false
}

// roomFor counts how many members of class the node's room holds, up to most.
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

// accepts reports whether one more member of class can stand on node now.
func (t *simulation) accepts(class int, node int32) bool {
	return t.roomFor(class, node, 1) == 1 && (!t.stateful[class] || t.keepsSkew(class, node) && t.oracle.Fits(class, int(node)))
}

// touches reports whether a unit matters to members by more than its room.
func (t *simulation) touches(unit int32) bool { return t.anyStateful && t.oracle.Touches(int(unit)) }

// holdsAt reports whether the members on a node have the room they stand on.
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

// holds reports whether a placed member still passes with everything else as it is now.
func (t *simulation) holds(st placement) bool {
	if !t.stateful[st.class] {
		return t.holdsAt(st.node)
	}
	t.unplace(st)
	ok := t.accepts(st.class, st.node)
	t.place(st)
	return ok
}

// reordered brings placed members into an order in which each passes given those before it, with everything else as it is
// now. It reports false, and changes nothing, where there is none.
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
