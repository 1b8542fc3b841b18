package core

// trait is what few units have and something asks for: a rule about those units, which then need not be asked about every unit, or
// an order among them.
type trait int

const (
	// traitTolerant: it has a toleration.
	traitTolerant trait = iota
	// traitStatic: it is a static pod.
	traitStatic
	// traitRefused: the deletion of one of its pods was refused.
	traitRefused
	// traitSurplus: it is past the minCount of its gang.
	traitSurplus
	// traitStale: it is a stale gang.
	traitStale

	traits = int(traitStale) + 1
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
	}
	return false
}

// traitIndex lists the units that have each trait, by their places in Snapshot.Units.
type traitIndex [traits]map[int32]bool

func newTraitIndex() (x traitIndex) {
	for t := range x {
		x[t] = make(map[int32]bool)
	}
	return x
}

// note takes over which traits a unit has; call it whenever one of them may have changed.
func (x *traitIndex) note(at int32, u *Unit) {
	for t := range x {
		if trait(t).isOf(u) {
			x[t][at] = true
		} else {
			delete(x[t], at)
		}
	}
}

// drop forgets a unit.
func (x *traitIndex) drop(at int32) {
	for t := range x {
		delete(x[t], at)
	}
}
