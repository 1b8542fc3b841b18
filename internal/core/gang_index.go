package core

import (
	"cmp"
	"slices"
)

// gangIndex maps the UID of a gang to its members. It has the gangs that are whole and whose
// members are preempted one by one. Gangs below minCount are omitted, because an eviction cannot
// break them.
type gangIndex map[string]*wholeGang

// wholeGang is a gang that is whole: it has at least minCount members, and the needed number of
// each role.
type wholeGang struct {
	minCount int
	// units are all members of the gang.
	units []int32
	// counted counts the members that make the gang whole. These are the running members if there
	// are enough of them. Otherwise they are all members with a node.
	counted Headcount
	// onlyRunning is true if counted has only the running members.
	onlyRunning bool
}

// counts reports whether a member is one of the members that the field counted counts.
func (g *wholeGang) counts(u *Unit) bool { return u.Running || !g.onlyRunning }

// set updates the entry of a gang from the list of all its members. It keeps the slice members, so
// the caller must not change the slice.
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
		x[uid] = &wholeGang{minCount: minCount, units: members, counted: running, onlyRunning: true}
	case all.IsWhole(minCount):
		x[uid] = &wholeGang{minCount: minCount, units: members, counted: all}
	}
}

// newGangIndex returns the whole gangs of a snapshot.
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

// of returns the whole gang that counts the unit as a member; nil if there is none.
func (x gangIndex) of(u *Unit) *wholeGang {
	if len(x) == 0 || u.Group || u.PodGroup == "" {
		return nil
	}
	if g := x[u.PodGroup]; g != nil && g.counts(u) {
		return g
	}
	return nil
}

// isNeeded reports whether the unit is a needed member of a whole gang.
func (x gangIndex) isNeeded(u *Unit) bool { return !u.Surplus && x.of(u) != nil }

// breaking counts the remaining members of gangs while a search adds victims. It finds the gangs
// that fall below minCount.
type breaking struct {
	gangs gangIndex
	left  map[string]*Headcount
	// broken maps the UID of each gang below minCount to the first victim that broke it.
	broken map[string]int32
}

// add counts a unit as evicted.
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

// brokenGangs returns the gangs that fall below minCount if the given units are evicted. The result
// maps the UID of a gang to one of its victims.
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

// gangRefs returns the gangs that fall below minCount if the given units are evicted, sorted by
// name.
func (sr *search) gangRefs(victims []int32, lost *losses) []GangRef {
	var out []GangRef
	for uid, u := range brokenGangs(sr.s, victims) {
		unit := &sr.s.Units[u]
		name := cmp.Or(unit.GroupName, uid)
		out = append(out, GangRef{
			Namespace: unit.Namespace, Name: name, UID: uid, MinCount: int(unit.Membership.MinCount), LostWork: lost.beside(uid, victims), Stops: lost.stopsOf(u),
		})
	}
	slices.SortFunc(out, func(a, b GangRef) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}
