package core

import "slices"

// localSearch improves a set of victims step by step: one or two more units go, and whatever they make
// unnecessary comes back.
type localSearch struct {
	*gang
	t *simulation
	k roomKeeper
	// pool are the potential victims, least important first.
	pool    []int32
	victims []int32
	score   Score
	// effort is what moving one unit costs, and left is how much more may be spent.
	effort, left int
}

// localSearchEffort bounds the work spent on exchanges. It is small beside that of the search itself. A group costs as much more to move as it
// has podsPerEffort pods.
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

// step makes the first exchange that is an improvement; it reports false where there is none.
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

// podsOf counts the pods of groups among some units.
func podsOf(s *Snapshot, units []int32) (pods int) {
	for _, u := range units {
		if n := len(s.Units[u].Pods); n > 1 {
			pods += n
		}
	}
	return pods
}

// try lets further units go and keeps the result where it is cheaper.
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
		// Small gangs whose members mind each other are packed anew for each unit, which costs what it costs.
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
