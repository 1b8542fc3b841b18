package core

// Oracle answers questions that depend on a scheduler's filters, which arithmetic cannot answer. It
// holds a simulated state of the cluster, which the core changes through Remove, Restore, Place and
// Unplace. Every change is undone before Decide returns. Classes, nodes, units and terminating pods
// are given by their index in the Preemptor and the Snapshot.
//
// Only Decide calls it, from one goroutine.
type Oracle interface {
	// Admits returns the reason why node can never admit a member of class, whichever pods are
	// evicted (a taint, a selector, a cordon). It returns "" if the node can.
	Admits(class, node int) string
	// Stateful reports whether the class depends on other pods by more than their room (affinity,
	// spread, host ports, volumes), or whether another class depends on it. For other classes the
	// core never calls Fits. If no class is stateful, the core does not update the simulated state.
	Stateful(class int) bool
	// Fits reports whether one more member of class passes every filter on node in the simulated
	// state. It need not check room: the core calls it only for nodes with enough room.
	Fits(class, node int) bool
	// Topologies returns those rules of the class about domains of nodes that the Oracle can
	// describe. The result never changes.
	Topologies(class int) []Topology
	// Touches reports whether the filters of any member depend on the unit by more than its room.
	// For other units, Fits returns the same with and without the unit in the simulated state.
	Touches(unit int) bool

	// RemoveUnit removes all pods of a unit from the simulated state; RestoreUnit puts them back.
	RemoveUnit(unit int)
	RestoreUnit(unit int)
	// RemoveLeaving removes a terminating pod from the simulated state; RestoreLeaving puts it
	// back.
	RemoveLeaving(pod int)
	RestoreLeaving(pod int)
	// Place puts one member of class on node in the simulated state; Unplace removes one.
	Place(class, node int)
	Unplace(class, node int)
}

// Reserver is an Oracle that also returns the room that is reserved for other pods. Free room does
// not include reserved room.
type Reserver interface {
	// Reserved returns the room reserved on a node; nil for none.
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
