package engine

import (
	"maps"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Ended is a member that has stopped running while its result, success or failure, is unknown. One
// informer reports the end and another the result, in any order.
type Ended struct {
	// Pod is the caller's object for the member. Gangs does not read it.
	Pod any
	// Until is the time when the scheduler stops waiting for the result.
	Until time.Time
}

// AwaitResult records that the result of a member is unknown.
func (gs *Gangs) AwaitResult(key workload.Key, member UID, ended Ended) {
	gs.change(key, func(g *gang) {
		if g.ended == nil {
			g.ended = make(map[UID]Ended)
		}
		g.ended[member] = ended
	})
}

// ExpireResults drops the members whose Until has passed. The main loop calls it, so that the pods
// of these members do not stay in memory.
func (gs *Gangs) ExpireResults(now time.Time) {
	for _, key := range gs.list(gs.ended) {
		gs.changeKnown(key, func(g *gang) {
			maps.DeleteFunc(g.ended, func(_ UID, ended Ended) bool { return !ended.Until.After(now) })
		})
	}
}

// ResultKnown records that the result of a member is known.
func (gs *Gangs) ResultKnown(key workload.Key, member UID) {
	gs.changeKnown(key, func(g *gang) { delete(g.ended, member) })
}

// Ended returns the members of a group that have ended with an unknown result, in no order.
func (gs *Gangs) Ended(key workload.Key, now time.Time) (members []Ended) {
	gs.read(key, func(g *gang) {
		for _, ended := range g.ended {
			if ended.Until.After(now) {
				members = append(members, ended)
			}
		}
	})
	return members
}
