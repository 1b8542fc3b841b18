package core

import "slices"

// localSearch improves a set of victims step by step. Each step adds one or two victims and
// restores all units whose eviction is no longer needed.
type localSearch struct {
	*gang
	t *simulation
	k roomKeeper
	// pool has the potential victims, the least important first.
	pool    []int32
	victims []int32
	score   Score
	// effort is the cost of moving one unit. left is the remaining effort.
	effort, left int
}

// localSearchEffort limits the effort of a local search, so that it is small compared with the
// other searches. For a group, the effort of a move is higher by one for each podsPerEffort pods.
const localSearchEffort, podsPerEffort = 40_000, 64

func (e *localSearch) run() {
	e.score, e.left, e.effort = scoreOf(e.s, e.victims), localSearchEffort, 1
	switch {
	case e.counts:
	case e.t.anyStateful:
		e.effort = 1 + len(e.s.Nodes)
	default:
		e.effort = 1 + len(e.s.Nodes)/8
	}
	for e.step() {
	}
}

// step makes the first exchange that lowers the cost. It returns false if there is none.
func (e *localSearch) step() bool {
	for i, u := range e.pool {
		if e.left < 0 {
			return false
		}
		if e.t.out[u] {
			continue
		}
		if e.try(u) {
			return true
		}
		for _, w := range e.pool[i+1:] {
			if e.left < 0 {
				return false
			}
			if !e.t.out[w] && e.try(u, w) {
				return true
			}
		}
	}
	return false
}

// podsOf returns the number of pods of the units with more than one pod.
func podsOf(s *Snapshot, units []int32) (pods int) {
	for _, u := range units {
		if n := len(s.Units[u].Pods); n > 1 {
			pods += n
		}
	}
	return pods
}

// try adds victims, restores the units whose eviction is no longer needed, and keeps the result if
// it is cheaper.
func (e *localSearch) try(more ...int32) bool {
	for _, u := range more {
		e.k.remove(u)
	}
	all := slices.Concat(e.victims, more)
	sortByImportance(e.s, all)
	for _, perWeight := range [...]bool{true, false} {
		order := all
		if perWeight {
			order = dearestFirst(e.s, all)
		}
		before := e.t.packed
		victims := bringBack(e.k, order)
		// If the members of a small gang depend on each other, each restored unit causes a new
		// packing. Each packing adds to the effort.
		e.left -= len(order)*e.effort + podsOf(e.s, order)/podsPerEffort + e.t.packed - before
		sortByImportance(e.s, victims)
		if sc := scoreOf(e.s, victims); better(sc, e.score) < 0 && e.allowed(victims) {
			e.victims, e.score = victims, sc
			return true
		}
		for _, u := range all {
			e.k.remove(u)
		}
	}
	for _, u := range more {
		e.k.restore(u)
	}
	return false
}
