package core

// meter counts the steps of one decision. A step is a verdict on a unit, or a move of a unit out of
// the simulated cluster or back. Each unit in a question to bounds is a step too. Unlike time, this
// measure of work is the same on every machine.
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
