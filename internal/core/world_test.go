package core

import (
	"fmt"
	"slices"
)

// world is an Oracle with a mind of its own: it models host ports, anti-affinity by host, topology spread
// and refusals, and keeps a trial state of its own from which it notices every unbalanced call.
type world struct {
	s *Snapshot
	p *Preemptor
	// classes are what each class minds.
	classes []worldClass
	// ports are the host ports of each unit's pods, 0 for none.
	ports []int
	// hostile marks units that no member with anti-affinity stands next to.
	hostile []bool
	// zones has the zone of each node.
	zones []int

	unitOut, leavingOut []bool
	placed              [][]int
	calls               int
	problems            []string
}

type worldClass struct {
	port    int
	anti    bool
	skew    int
	refuses []bool
}

func newWorld(s *Snapshot, p *Preemptor) *world {
	w := &world{
		s: s, p: p, classes: make([]worldClass, len(p.Classes)),
		ports: make([]int, len(s.Units)), hostile: make([]bool, len(s.Units)), zones: make([]int, len(s.Nodes)),
		unitOut: make([]bool, len(s.Units)), leavingOut: make([]bool, len(s.Leaving)),
		placed: make([][]int, len(p.Classes)),
	}
	for c := range p.Classes {
		w.placed[c] = make([]int, len(s.Nodes))
		w.classes[c].refuses = make([]bool, len(s.Nodes))
	}
	return w
}

// randomWorld makes the classes mind things.
func randomWorld(pick chooser, s *Snapshot, p *Preemptor, spread bool) *world {
	w := newWorld(s, p)
	for n := range w.zones {
		w.zones[n] = pick(2)
	}
	for u := range s.Units {
		w.ports[u], w.hostile[u] = pick(3), pick(4) == 0
	}
	for c := range w.classes {
		wc := &w.classes[c]
		wc.port, wc.anti = pick(3), pick(2) == 0
		if spread {
			wc.skew = pick(3)
		}
		for n := range wc.refuses {
			wc.refuses[n] = pick(4) == 0
		}
	}
	return w
}

func (w *world) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *world) Admits(class, node int) string {
	if w.classes[class].refuses[node] {
		return "tainted"
	}
	return ""
}

// Stateful is also true for a class that minds nothing itself where another one's members mind it.
func (w *world) Stateful(class int) bool {
	c := &w.classes[class]
	return c.port != 0 || c.skew != 0 || slices.ContainsFunc(w.classes, func(o worldClass) bool { return o.anti })
}

func (w *world) Fits(class, node int) bool {
	w.calls++
	if !w.Stateful(class) {
		w.problem("Fits for class %d, to which nothing but room matters", class)
	}
	if !w.hasRoom(class, node) {
		w.problem("Fits for class %d on node %d, which has no room", class, node)
	}
	return w.peaceful(class, node) && w.spreadAllows(class, node)
}

// hasRoom works out the room of a node from the trial state.
func (w *world) hasRoom(class, node int) bool {
	room := slices.Clone(w.s.Nodes[node].Free)
	for u := range w.s.Units {
		for i := range w.s.Units[u].Pods {
			if p := &w.s.Units[u].Pods[i]; w.unitOut[u] && p.Node == node {
				for r, v := range p.Request {
					room[r] += v
				}
			}
		}
	}
	for l := range w.s.Leaving {
		if w.leavingOut[l] && w.s.Leaving[l].Node == node {
			for r, v := range w.s.Leaving[l].Request {
				room[r] += v
			}
		}
	}
	for c := range w.placed {
		for r, v := range w.p.Classes[c].Request {
			room[r] -= v * int64(w.placed[c][node])
		}
	}
	return refFits(w.p.Classes[class].Request, room)
}

// peaceful reports whether neither ports nor anti-affinity are in the way.
func (w *world) peaceful(class, node int) bool {
	mine := &w.classes[class]
	for c := range w.placed {
		if w.placed[c][node] == 0 {
			continue
		}
		if mine.port != 0 && w.classes[c].port == mine.port || mine.anti || w.classes[c].anti {
			return false
		}
	}
	for u := range w.s.Units {
		if w.unitOut[u] || !slices.ContainsFunc(w.s.Units[u].Pods, func(p Pod) bool { return p.Node == node }) {
			continue
		}
		if mine.port != 0 && w.ports[u] == mine.port || mine.anti && w.hostile[u] {
			return false
		}
	}
	return true
}

func (w *world) spreadAllows(class, node int) bool {
	skew := w.classes[class].skew
	if skew == 0 {
		return true
	}
	counts := map[int]int{}
	for n := range w.zones {
		if !w.classes[class].refuses[n] {
			counts[w.zones[n]] += 0
		}
		counts[w.zones[n]] += w.placed[class][n]
	}
	least := -1
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
	}
	return counts[w.zones[node]]+1-least <= skew
}

func (w *world) flip(state []bool, i int, to bool, what string) {
	if state[i] == to {
		w.problem("%s %d twice", what, i)
	}
	state[i] = to
}

func (w *world) RemoveUnit(unit int)    { w.flip(w.unitOut, unit, true, "RemoveUnit") }
func (w *world) RestoreUnit(unit int)   { w.flip(w.unitOut, unit, false, "RestoreUnit") }
func (w *world) RemoveLeaving(pod int)  { w.flip(w.leavingOut, pod, true, "RemoveLeaving") }
func (w *world) RestoreLeaving(pod int) { w.flip(w.leavingOut, pod, false, "RestoreLeaving") }
func (w *world) Place(class, node int)  { w.placed[class][node]++ }

func (w *world) Unplace(class, node int) {
	w.placed[class][node]--
	if w.placed[class][node] < 0 {
		w.problem("Unplace of class %d on node %d, where there is none", class, node)
	}
}

// restored reports whether the trial state is what it was at first.
func (w *world) restored() bool {
	for c := range w.placed {
		if slices.ContainsFunc(w.placed[c], func(n int) bool { return n != 0 }) {
			return false
		}
	}
	return !slices.Contains(w.unitOut, true) && !slices.Contains(w.leavingOut, true)
}

// canPlace searches exhaustively for seats for the members left, on some nodes, in the trial state.
func (w *world) canPlace(left []int, nodes []int) bool {
	class := slices.IndexFunc(left, func(n int) bool { return n > 0 })
	if class < 0 {
		return true
	}
	for _, n := range nodes {
		if w.classes[class].refuses[n] || !w.hasRoom(class, n) || w.Stateful(class) && !w.Fits(class, n) {
			continue
		}
		w.Place(class, n)
		left[class]--
		ok := w.canPlace(left, nodes)
		left[class]++
		w.Unplace(class, n)
		if ok {
			return true
		}
	}
	return false
}

// with runs f with some units, and all leaving pods, out of the trial state.
func (w *world) with(units []int, f func()) {
	for _, u := range units {
		w.unitOut[u] = true
	}
	for l := range w.leavingOut {
		w.leavingOut[l] = w.s.Leaving[l].Node >= 0
	}
	f()
	clear(w.unitOut)
	clear(w.leavingOut)
}
