package core

// meter counts the steps of one decision. Steps are verdicts on units, moves of units out of the
// simulated cluster or back, and units that bounds are asked about. The count measures the work of
// a search and, unlike time, is the same on every machine.
type meter struct {
	steps int
	// replacements counts the searches for replacements of victims; see cascades.
	replacements int
}

// add counts steps; a nil meter counts none.
func (m *meter) add(steps int) {
	if m != nil {
		m.steps += steps
	}
}

// DecideCounting is like Decide, and also returns the number of steps that the decision took.
func DecideCounting(s *Snapshot, p *Preemptor, oracle Oracle) (d Decision, steps int, err error) {
	return decide(s, p, oracle, protections())
}
