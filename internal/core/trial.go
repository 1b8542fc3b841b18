package core

import "slices"

// trial is the state of the cluster that a search changes and takes back: free room by node, which units
// are out, and where members stand. Where other pods matter to a member, it keeps the Oracle's trial state
// in step; where they do not, the Oracle is left alone.
type trial struct {
	*view
	// free holds dims values for each node.
	free []int64
	// out marks the units that are removed.
	out []bool
	// seated counts the members of each class on each node.
	seated [][]int32
	// pool are the potential victims that outUpTo moves, least important first; the first gone ones are out.
	pool []int32
	gone int
}

// seat is one member's place: a member of class on node.
type seat struct {
	class int
	node  int32
}

// newTrial starts with everything where it is, the leaving pods included or not.
func newTrial(v *view, free []int64) *trial {
	t := &trial{
		view: v, free: slices.Clone(free), out: make([]bool, len(v.s.Units)),
		seated: make([][]int32, len(v.wanted)),
	}
	for c := range t.seated {
		t.seated[c] = make([]int32, len(v.s.Nodes))
	}
	return t
}

func (t *trial) freeOf(node int32) []int64 { return t.free[int(node)*t.dims:][:t.dims] }

// shift adds a unit's use of its nodes to their room, or takes it away.
func (t *trial) shift(unit int32, sign int64) {
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
			free[r] += sign * usedAmount(v)
		}
	}
}

// remove takes a unit out, on all its nodes.
func (t *trial) remove(unit int32) {
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
func (t *trial) restore(unit int32) {
	if !t.out[unit] {
		return
	}
	t.out[unit] = false
	t.shift(unit, -1)
	if t.anyStateful {
		t.oracle.RestoreUnit(int(unit))
	}
}

func (t *trial) removeAll(units []int32) {
	for _, u := range units {
		t.remove(u)
	}
}

func (t *trial) restoreAll(units []int32) {
	for _, u := range units {
		t.restore(u)
	}
}

func (t *trial) place(st seat) {
	free := t.freeOf(st.node)
	for r, v := range t.wanted[st.class] {
		free[r] -= v
	}
	t.seated[st.class][st.node]++
	if t.anyStateful {
		t.oracle.Place(st.class, int(st.node))
	}
}

func (t *trial) unplace(st seat) {
	free := t.freeOf(st.node)
	for r, v := range t.wanted[st.class] {
		free[r] += v
	}
	t.seated[st.class][st.node]--
	if t.anyStateful {
		t.oracle.Unplace(st.class, int(st.node))
	}
}

func (t *trial) placeAll(seats []seat) {
	for _, st := range seats {
		t.place(st)
	}
}

func (t *trial) unplaceAll(seats []seat) {
	for _, st := range slices.Backward(seats) {
		t.unplace(st)
	}
}

// roomFor counts how many members of class the node's room holds, up to most.
func (t *trial) roomFor(class int, node int32, most int) int {
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
func (t *trial) accepts(class int, node int32) bool {
	return t.roomFor(class, node, 1) == 1 && (!t.stateful[class] || t.oracle.Fits(class, int(node)))
}

// holdsAt reports whether the members on a node have the room they stand on.
func (t *trial) holdsAt(node int32) bool {
	free := t.freeOf(node)
	for c := range t.seated {
		if t.seated[c][node] == 0 {
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

// holds reports whether a seated member still passes with everything else as it is now.
func (t *trial) holds(st seat) bool {
	if !t.stateful[st.class] {
		return t.holdsAt(st.node)
	}
	t.unplace(st)
	ok := t.accepts(st.class, st.node)
	t.place(st)
	return ok
}

// allHold reports whether every seat still holds.
func (t *trial) allHold(seats []seat) bool {
	for _, st := range seats {
		if !t.holdsAt(st.node) {
			return false
		}
	}
	if !t.anyStateful {
		return true
	}
	for _, st := range seats {
		if !t.holds(st) {
			return false
		}
	}
	return true
}
