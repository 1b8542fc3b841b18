package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// Kept describes the room that the scheduler keeps free for the lost members of a gang.
type Kept struct {
	workload.Standing
	// Lost is the number of missing members.
	Lost int
}

// Keeps records that the scheduler keeps room free for the lost members of a gang.
func (gs *Gangs) Keeps(key workload.Key, room Kept) {
	gs.change(key, func(g *gang) { g.kept = &room })
}

// HasKept reports whether the scheduler keeps room free for the lost members of any gang.
func (gs *Gangs) HasKept() bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return len(gs.kept) > 0
}

// EndKept compares the records of [Gangs.Keeps] with now, which has the kept room of each gang. It
// deletes each record that differs from now or has no entry there. It reports whether it deleted
// any record.
func (gs *Gangs) EndKept(now map[workload.Key]Kept) (ended bool) {
	for _, key := range gs.list(gs.kept) {
		gs.changeKnown(key, func(g *gang) {
			if room, ok := now[key]; g.kept != nil && (!ok || room != *g.kept) {
				g.kept, ended = nil, true
			}
		})
	}
	return ended
}
