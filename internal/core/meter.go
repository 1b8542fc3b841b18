package core

// meter counts the steps of one decision. A step is a verdict on a unit, or the removal or restore
// of a unit in a simulation. Each unit in a check of bounds on sets is a step too. The number of
// steps is the same on every machine, unlike a duration.
type meter struct {
	steps int
	// replacements is the number of searches for room for the victims' replacements. The type
	// cascades counts them.
	replacements int
}

// add adds steps. A nil meter ignores them.
func (m *meter) add(steps int) {
	if m != nil {
		m.steps += steps
	}
}

// DecideCounting is like Decide. It also returns the number of steps of the decision.
func DecideCounting(s *Snapshot, p *Preemptor, oracle Oracle) (d Decision, steps int, err error) {
	return decide(s, p, oracle, protections())
}
