package core

// trait is a property that only few units have. With an index of the units with a trait, a rule
// need not check every unit.
type trait int

const (
	// traitTolerant: the unit has a toleration.
	traitTolerant trait = iota
	// traitStatic: the unit is a static pod.
	traitStatic
	// traitRefused: the API server rejected the deletion of one of the unit's pods.
	traitRefused
	// traitSurplus: the unit is a surplus member of its gang.
	traitSurplus
	// traitStale: the unit is a stale gang.
	traitStale
	// traitStopped: preemptions stopped the unit's group, and these stops may count.
	traitStopped

	traits = int(traitStopped) + 1
)

// isOf reports whether a unit has the trait.
func (t trait) isOf(u *Unit) bool {
	switch t {
	case traitTolerant:
		return u.Toleration != nil
	case traitStatic:
		return u.Static
	case traitRefused:
		return u.RefusedUntil != 0
	case traitSurplus:
		return u.Surplus
	case traitStale:
		return u.Stale
	case traitStopped:
		return u.Stops.Count > 0
	}
	return false
}

// traitIndex has the units with each trait, by their index in Snapshot.Units.
type traitIndex [traits]map[int32]bool

func newTraitIndex() (x traitIndex) {
	for t := range x {
		x[t] = make(map[int32]bool)
	}
	return x
}

// note updates the index for the unit u at index at. Call it after any change of the unit's traits.
func (x *traitIndex) note(at int32, u *Unit) {
	for t := range x {
		if trait(t).isOf(u) {
			x[t][at] = true
		} else {
			delete(x[t], at)
		}
	}
}

func (x *traitIndex) drop(at int32) {
	for t := range x {
		delete(x[t], at)
	}
}
