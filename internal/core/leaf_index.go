package core

// leafIndex maps each leaf queue to its units, and each unit to its leaf queue. Without a tree of
// queues, all units are in no queue.
type leafIndex struct {
	// leaves has the index of each unit's leaf queue; -1 for none. The field at has the position of
	// each unit in the list of its leaf queue.
	leaves, at []int32
	// lists has the units of each leaf queue. The index is the queue's index plus 1. Index 0 has
	// the units in no queue.
	lists []leafList
}

// leafList has the units in one leaf queue.
type leafList struct {
	units []int32
	// most is an upper bound of the units' requests, by resource. latest is an upper bound of
	// Unit.Since.
	most   []int64
	latest int64
	// unbegun is the number of units whose Since is 0.
	unbegun int
}

// newLeafIndex returns the index for the units of a snapshot.
func newLeafIndex(s *Snapshot) *leafIndex {
	lists := 1
	if s.Queues != nil && s.Queues.Tree != nil {
		lists += s.Queues.Tree.Len()
	}
	ro := &leafIndex{lists: make([]leafList, lists)}
	ro.grow(len(s.Units))
	for u := range s.Units {
		switch {
		case len(s.Units[u].Pods) == 0:
		case s.Queues == nil:
			ro.put(s, int32(u), -1)
		default:
			ro.put(s, int32(u), s.Queues.Tree.LeafOf(s.Units[u].queue()))
		}
	}
	return ro
}

// grow adds entries for more units. The new units are in no list.
func (ro *leafIndex) grow(units int) {
	for len(ro.leaves) < units {
		ro.leaves, ro.at = append(ro.leaves, -1), append(ro.at, -1)
	}
}

// put adds a unit to a leaf queue, or to the list of units in no queue if leaf is -1. The unit must
// not be in a list already.
func (ro *leafIndex) put(s *Snapshot, u, leaf int32) {
	ro.grow(int(u) + 1)
	l := &ro.lists[leaf+1]
	ro.leaves[u], ro.at[u] = leaf, int32(len(l.units))
	l.units = append(l.units, u)
	if s.Units[u].Since == 0 {
		l.unbegun++
	}
	l.latest = max(l.latest, s.Units[u].Since)
	ro.widen(s, u)
}

// widen raises the upper bound most to the request of a unit.
func (ro *leafIndex) widen(s *Snapshot, u int32) {
	l := &ro.lists[ro.leaves[u]+1]
	if l.most == nil {
		l.most = make([]int64, len(s.Resources))
	}
	for r := range l.most {
		l.most[r] = max(l.most[r], useOf(&s.Units[u], r))
	}
}

// drop removes a unit from its list. The unit's Since must be the same as in the call of put.
func (ro *leafIndex) drop(s *Snapshot, u int32) {
	l := &ro.lists[ro.leaves[u]+1]
	at, last := ro.at[u], l.units[len(l.units)-1]
	l.units[at], ro.at[last] = last, at
	l.units = l.units[:len(l.units)-1]
	if s.Units[u].Since == 0 {
		l.unbegun--
	}
	if len(l.units) == 0 {
		// The list is empty, so reset its upper bounds.
		clear(l.most)
		l.latest = 0
	}
	ro.leaves[u], ro.at[u] = -1, -1
}
