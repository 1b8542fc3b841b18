package core

import (
	"fmt"
	"slices"
)

// world is an Oracle with host ports, anti-affinity by host, topology spread and rejected nodes. It
// detects calls that do not match, such as a RestoreUnit without a RemoveUnit.
type world struct {
	s *Snapshot
	p *Preemptor
	// classes has the rules of each class.
	classes []worldClass
	// ports are the host ports of each unit's pods; 0 for none.
	ports []int
	// hostile is true for units that members with anti-affinity must not be next to.
	hostile []bool
	// zones has the zone of each node. domains is zones as int32, for Topologies.
	zones   []int
	domains []int32

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
	// near are the classes that must already have a member in the zone. If a class is in its own
	// near, its first member may use any zone.
	near []int
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

// randomWorld returns a world with random rules for the classes.
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
			if pick(3) == 0 {
				wc.near = []int{pick(len(w.classes))}
			}
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

// Stateful reports whether the class has a rule, or any class has anti-affinity.
func (w *world) Stateful(class int) bool {
	c := &w.classes[class]
	return c.port != 0 || c.skew != 0 || len(c.near) > 0 || slices.ContainsFunc(w.classes, func(o worldClass) bool { return o.anti })
}

func (w *world) Fits(class, node int) bool {
	w.calls++
	if !w.Stateful(class) {
		w.problem("Fits for class %d, to which nothing but room matters", class)
	}
	if !w.hasRoom(class, node) {
		w.problem("Fits for class %d on node %d, which has no room", class, node)
	}
	return w.peaceful(class, node) && w.spreadAllows(class, node) && w.isNear(class, node)
}

// isNear reports whether the zone of a node has the members that a class must be near.
func (w *world) isNear(class, node int) bool {
	for _, c := range w.classes[class].near {
		here, anywhere := 0, 0
		for n, count := range w.placed[c] {
			anywhere += count
			if w.zones[n] == w.zones[node] {
				here += count
			}
		}
		if here == 0 && (c != class || anywhere > 0) {
			return false
		}
	}
	return true
}

// Topologies returns the rules of a class about zones.
func (w *world) Topologies(class int) []Topology {
	zones := w.zoneOf()
	var out []Topology
	if near := w.classes[class].near; len(near) > 0 {
		out = append(out, Topology{Domains: zones, With: near})
	}
	if w.classes[class].skew > 0 {
		out = append(out, Topology{Domains: zones, Spread: worldSpread{w, class}})
	}
	return out
}

// zoneOf returns the zone of each node. All rules share the slice.
func (w *world) zoneOf() []int32 {
	if w.domains == nil {
		for _, z := range w.zones {
			w.domains = append(w.domains, int32(z))
		}
	}
	return w.domains
}

// worldSpread counts the members of a class in each zone.
type worldSpread struct {
	w     *world
	class int
}

func (s worldSpread) Count(domain int32) int {
	count := 0
	for n, z := range s.w.zones {
		if int32(z) == domain {
			count += s.w.placed[s.class][n]
		}
	}
	return count
}

func (s worldSpread) Takes(domain int32) bool {
	return s.w.spreadAllows(s.class, slices.Index(s.w.zoneOf(), domain))
}

// Touches reports whether a unit may have an effect on the rules of a member.
func (w *world) Touches(unit int) bool { return w.ports[unit] != 0 || w.hostile[unit] }

// hasRoom reports whether a node has room for a member in the simulated state.
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

// peaceful reports whether host ports and anti-affinity permit a member on a node.
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

// restored reports whether the simulated state is the same as at the start.
func (w *world) restored() bool {
	for c := range w.placed {
		if slices.ContainsFunc(w.placed[c], func(n int) bool { return n != 0 }) {
			return false
		}
	}
	return !slices.Contains(w.unitOut, true) && !slices.Contains(w.leavingOut, true)
}

// canPlace reports whether the remaining members can be placed on the nodes in some order, by
// exhaustive search in the simulated state.
func (w *world) canPlace(left []int, nodes []int) bool {
	done := true
	for class, count := range left {
		if count == 0 {
			continue
		}
		done = false
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
	}
	return done
}

// with calls f while some units and all terminating pods are removed from the simulated state.
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
