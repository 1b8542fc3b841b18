package core

// Oracle answers questions about the scheduler's filters that arithmetic cannot answer. It holds a
// simulated state of the cluster. The core changes this state through Remove, Restore, Place and
// Unplace. Before Decide returns, it undoes every change. Classes, nodes, units and terminating
// pods are given by their index in the Preemptor or the Snapshot.
//
// Decide calls its Oracle from one goroutine.
type Oracle interface {
	// Admits returns the reason why node can never admit a member of class, such as a taint or a
	// selector. Evictions do not change this reason. It returns "" if the node can admit a member.
	Admits(class, node int) string
	// Stateful reports whether the class depends on other pods by more than their room (affinity,
	// spread, host ports, volumes). It is also true if another class depends on this one. The core
	// calls Fits only for stateful classes. If no class is stateful, the core does not update the
	// simulated state.
	Stateful(class int) bool
	// Fits reports whether one more member of class passes every filter on node in the simulated
	// state. It may ignore room, because the core calls it only for nodes with enough room.
	Fits(class, node int) bool
	// Topologies returns the rules of the class about domains of nodes, as far as the Oracle can
	// describe them. The result never changes.
	Topologies(class int) []Topology
	// Touches reports whether the filters of any member depend on the unit by more than its room.
	// If not, the result of Fits is the same with and without the unit.
	Touches(unit int) bool

	// RemoveUnit removes all pods of a unit from the simulated state.
	RemoveUnit(unit int)
	// RestoreUnit undoes RemoveUnit.
	RestoreUnit(unit int)
	// RemoveLeaving removes a terminating pod from the simulated state.
	RemoveLeaving(pod int)
	// RestoreLeaving undoes RemoveLeaving.
	RestoreLeaving(pod int)
	// Place adds one member of class to node in the simulated state.
	Place(class, node int)
	// Unplace undoes one call of Place.
	Unplace(class, node int)
}

// Reserver is an Oracle that also returns the room reserved for other pods. Free room in the
// Snapshot does not include reserved room.
type Reserver interface {
	// Reserved returns the room that is reserved on a node; nil for none.
	Reserved(node int) Amounts
}

// Arithmetic is the Oracle of a cluster where only room matters.
type Arithmetic struct{}

var _ Oracle = Arithmetic{}

// Admits always returns "": every node admits every class.
func (Arithmetic) Admits(_, _ int) string { return "" }

// Stateful always returns false.
func (Arithmetic) Stateful(_ int) bool { return false }

// Fits always returns true.
func (Arithmetic) Fits(_, _ int) bool { return true }

// Topologies always returns nil.
func (Arithmetic) Topologies(_ int) []Topology { return nil }

// Touches always returns false.
func (Arithmetic) Touches(_ int) bool { return false }

// RemoveUnit does nothing.
func (Arithmetic) RemoveUnit(_ int) {}

// RestoreUnit does nothing.
func (Arithmetic) RestoreUnit(_ int) {}

// RemoveLeaving does nothing.
func (Arithmetic) RemoveLeaving(_ int) {}

// RestoreLeaving does nothing.
func (Arithmetic) RestoreLeaving(_ int) {}

// Place does nothing.
func (Arithmetic) Place(_, _ int) {}

// Unplace does nothing.
func (Arithmetic) Unplace(_, _ int) {}
