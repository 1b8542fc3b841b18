package core

import (
	"cmp"
	"slices"
)

// gangIndex has the whole gangs whose members are preempted one by one, by UID. A gang that is
// below minCount already is not in it: it cannot fall below minCount.
type gangIndex map[string]*wholeGang

// wholeGang is a gang with at least minCount members, of each role as many as it needs.
type wholeGang struct {
	minCount int
	// counted are the members that keep the gang whole: those that run if these are enough, all
	// that have a node otherwise.
	counted Headcount
	// onlyRunning is true where members that do not run are not counted.
	onlyRunning bool
}

// counts reports whether a member is one of those that keep the gang whole.
func (g *wholeGang) counts(u *Unit) bool { return u.Running || !g.onlyRunning }

// set takes over how a gang stands, given all of its members.
func (x gangIndex) set(s *Snapshot, uid string, members []int32) {
	delete(x, uid)
	if len(members) == 0 || !elastic(&s.Units[members[0]]) {
		return
	}
	minCount := int(s.Units[members[0]].Membership.MinCount)
	var all, running Headcount
	for _, m := range members {
		u, runs := &s.Units[m], 0
		if u.Running {
			runs = 1
		}
		all.Add(u.Role, 1)
		running.Add(u.Role, runs)
	}
	switch {
	case running.IsWhole(minCount):
		x[uid] = &wholeGang{minCount: minCount, counted: running, onlyRunning: true}
	case all.IsWhole(minCount):
		x[uid] = &wholeGang{minCount: minCount, counted: all}
	}
}

// newGangIndex finds the whole gangs of a snapshot.
func newGangIndex(s *Snapshot) gangIndex {
	members, x := make(map[string][]int32), make(gangIndex)
	for u := range s.Units {
		if unit := &s.Units[u]; len(unit.Pods) > 0 && elastic(unit) {
			members[unit.PodGroup] = append(members[unit.PodGroup], int32(u))
		}
	}
	for uid, units := range members {
		x.set(s, uid, units)
	}
	return x
}

// of returns the whole gang that a unit helps to keep whole; nil where there is none.
func (x gangIndex) of(u *Unit) *wholeGang {
	if len(x) == 0 || u.Group || u.PodGroup == "" {
		return nil
	}
	if g := x[u.PodGroup]; g != nil && g.counts(u) {
		return g
	}
	return nil
}

// isNeeded reports whether a unit is a member that its gang needs to stay whole.
func (x gangIndex) isNeeded(u *Unit) bool { return !u.Surplus && x.of(u) != nil }

// breaking counts what some victims leave of gangs, to find those that fall below minCount.
type breaking struct {
	gangs gangIndex
	left  map[string]*Headcount
	// broken are the gangs that have fallen below minCount, by a member of each.
	broken map[string]int32
}

// add lets a unit go.
func (b *breaking) add(s *Snapshot, u int32) {
	unit := &s.Units[u]
	g := b.gangs.of(unit)
	if g == nil {
		return
	}
	left := b.left[unit.PodGroup]
	if left == nil {
		if b.left == nil {
			b.left, b.broken = make(map[string]*Headcount), make(map[string]int32)
		}
		counted := g.counted.clone()
		left = &counted
		b.left[unit.PodGroup] = left
	}
	left.Add(unit.Role, -1)
	if _, known := b.broken[unit.PodGroup]; !known && left.Spare(g.minCount, unit.Role) < 0 {
		b.broken[unit.PodGroup] = u
	}
}

// brokenGangs finds the gangs that fall below minCount once some units are gone, by a member of
// each.
func brokenGangs(s *Snapshot, victims []int32) map[string]int32 {
	gangs := s.gangs
	if gangs == nil {
		gangs = newGangIndex(s)
	}
	if len(gangs) == 0 {
		return nil
	}
	b := breaking{gangs: gangs}
	for _, u := range victims {
		b.add(s, u)
	}
	return b.broken
}

// gangRefs describes the gangs that fall below minCount, by name.
func (sr *search) gangRefs(victims []int32) []GangRef {
	var out []GangRef
	for uid, u := range brokenGangs(sr.s, victims) {
		unit := &sr.s.Units[u]
		name := cmp.Or(unit.GroupName, uid)
		out = append(out, GangRef{Namespace: unit.Namespace, Name: name, UID: uid, MinCount: int(unit.Membership.MinCount)})
	}
	slices.SortFunc(out, func(a, b GangRef) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}
