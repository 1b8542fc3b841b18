package core

import "slices"

// localSearch improves a set of victims step by step. Each step adds one or two victims and puts
// back all units that become unnecessary.
type localSearch struct {
	*gang
	t *simulation
	k roomKeeper
	// pool are the potential victims, least important first.
	pool    []int32
	victims []int32
	score   Score
	// effort is the cost of moving one unit, and left the remaining budget.
	effort, left int
}

// localSearchEffort bounds the work spent on exchanges; it is small compared with the rest of the
// search. Moving a group costs one more per podsPerEffort pods.
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

// step makes the first exchange that is an improvement. It returns false if there is none.
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

// podsOf counts the pods of all groups among some units.
func podsOf(s *Snapshot, units []int32) (pods int) {
	for _, u := range units {
		if n := len(s.Units[u].Pods); n > 1 {
			pods += n
		}
	}
	return pods
}

// try evicts further units and keeps the result if it is cheaper.
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
		// Small gangs whose members depend on each other are packed again for each unit; the
		// packings count too.
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
