package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// VictimPriority is the priority of a group as a potential victim. It differs from the scheduling
// priority if the group names a separate PriorityClass for preemption. Reason states whether that
// PriorityClass applies, and why.
type VictimPriority struct {
	Priority int32
	Reason   string
}

// SetVictimPriority records the priority of a group as a potential victim. It returns the
// previously recorded priority; false for none. If the priority changed, it requests an update of
// the group's status.
func (gs *Gangs) SetVictimPriority(key workload.Key, p VictimPriority) (before VictimPriority, known bool) {
	gs.change(key, func(g *gang) {
		before, known = g.object.victim, g.object.raises
		g.object.victim, g.object.raises = p, true
	})
	if !known || before != p {
		gs.verdictChanged(key)
	}
	return before, known
}

// EndVictimPriority drops the record of [Gangs.SetVictimPriority] and returns it; false for none.
func (gs *Gangs) EndVictimPriority(key workload.Key) (before VictimPriority, known bool) {
	gs.changeKnown(key, func(g *gang) {
		before, known = g.object.victim, g.object.raises
		g.object.victim, g.object.raises = VictimPriority{}, false
	})
	return before, known
}

// VictimPriorities returns the groups with a record of [Gangs.SetVictimPriority], in no order.
func (gs *Gangs) VictimPriorities() []workload.Key { return gs.list(gs.raising) }
