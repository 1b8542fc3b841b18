package core

// Oracle answers for everything that a scheduler's filters know and arithmetic does not. It holds a simulation
// state of the cluster, which the core changes through Remove, Restore, Place and Unplace; every change is
// taken back before Decide returns. Classes, nodes, units and leaving pods are named by their index in the
// Preemptor and the Snapshot.
//
// Only Decide calls it, from one goroutine.
type Oracle interface {
	// Admits says why node can never take a member of class, whatever leaves it (a taint, a selector, a
	// cordon), or "" where it can.
	Admits(class, node int) string
	// Stateful reports whether other pods matter to the class by more than the room they occupy (affinity,
	// spread, host ports, volumes), or it to members of another class. Where it is false, Fits is never asked;
	// where it is false for all classes, neither is the simulation state kept.
	Stateful(class int) bool
	// Fits reports whether one more member of class passes every filter on node in the simulation state. Room is not its
	// business: it is asked only where arithmetic has found some.
	Fits(class, node int) bool
	// Topologies are the class's rules about domains of nodes, as far as the Oracle can tell them. They do not change.
	Topologies(class int) []Topology
	// Touches reports whether the unit matters to some member by more than the room it occupies. Where it does not, Fits
	// says the same with the unit in the simulation state and out of it.
	Touches(unit int) bool

	// RemoveUnit takes all pods of a unit out of the simulation state; RestoreUnit puts them back.
	RemoveUnit(unit int)
	RestoreUnit(unit int)
	// RemoveLeaving takes a leaving pod out of the simulation state; RestoreLeaving puts it back.
	RemoveLeaving(pod int)
	RestoreLeaving(pod int)
	// Place puts one member of class on node in the simulation state; Unplace takes one away again.
	Place(class, node int)
	Unplace(class, node int)
}

// Reserver is an Oracle that knows which room on nodes is reserved for others. Free room is without
// it.
type Reserver interface {
	// Reserved returns the room that is reserved on a node; nil for none.
	Reserved(node int) Amounts
}

// Arithmetic is the Oracle of a cluster in which only room matters.
type Arithmetic struct{}

var _ Oracle = Arithmetic{}

// Admits lets every class on every node.
func (Arithmetic) Admits(_, _ int) string { return "" }

// Stateful reports that room is all that matters.
func (Arithmetic) Stateful(_ int) bool { return false }

// Fits is never asked.
func (Arithmetic) Fits(_, _ int) bool { return true }

// Topologies has no rules.
func (Arithmetic) Topologies(_ int) []Topology { return nil }

// Touches reports that room is all that matters.
func (Arithmetic) Touches(_ int) bool { return false }

// RemoveUnit has nothing to keep track of.
func (Arithmetic) RemoveUnit(_ int) {}

// RestoreUnit has nothing to keep track of.
func (Arithmetic) RestoreUnit(_ int) {}

// RemoveLeaving has nothing to keep track of.
func (Arithmetic) RemoveLeaving(_ int) {}

// RestoreLeaving has nothing to keep track of.
func (Arithmetic) RestoreLeaving(_ int) {}

// Place has nothing to keep track of.
func (Arithmetic) Place(_, _ int) {}

// Unplace has nothing to keep track of.
func (Arithmetic) Unplace(_, _ int) {}
