package core

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// aftermath is the cluster after a preemption: the victims and the terminating pods are gone, and
// the preemptor is placed. It copies only the data that differs from the original snapshot. The
// lists of units on each node still contain evicted units; the protection goneUnits prevents a
// second eviction. The preemptor and earlier replacements take up room but are not units, so no
// replacement can evict them.
type aftermath struct {
	whole *search
	s     Snapshot
	c     columns
	// gone has the evicted units, by index.
	gone map[int32]bool
}

// newAftermath returns the cluster after the outcome f was carried out: its victims are evicted,
// and the preemptor's members are placed.
func newAftermath(whole *search, f *found) *aftermath {
	v := whole.v
	a := &aftermath{whole: whole, s: *v.s, c: *v.c, gone: make(map[int32]bool)}
	a.c.later = slices.Clone(v.c.later)
	a.c.free = a.c.later
	// Do not reuse the table of losses. It was computed before the preemption, when the gangs that
	// f breaks were still whole.
	a.c.losses = nil
	a.s.columns, a.s.Leaving, a.s.losses, a.s.stopped = &a.c, nil, nil, nil
	a.s.Budgets = slices.Clone(v.s.Budgets)
	if q := v.s.Queues; q != nil && q.Tree != nil {
		_, used := v.inQueues()
		queues := *q
		queues.used = slices.Clone(used)
		a.s.Queues = &queues
	}
	a.evict(f.victims)
	for _, st := range f.placements {
		a.occupy(st.node, whole.p.Classes[st.class].Request, whole.p.Queue)
	}
	return a
}

// evict adds the room of units to their nodes. It subtracts the units from the usage of their
// queues and from their budgets.
func (a *aftermath) evict(units []int32) {
	for _, u := range units {
		unit := &a.s.Units[u]
		a.gone[u] = true
		for i := range unit.Pods {
			pod := &unit.Pods[i]
			if pod.Node >= 0 {
				addTo(a.room(int32(pod.Node)), pod.Request)
			}
			a.use(unit.queue(), pod.Request, -1)
			for _, b := range pod.Budgets {
				a.s.Budgets[b].Allowed--
			}
		}
	}
	a.regroup(units)
}

// regroup removes victims from the index of each gang's members.
func (a *aftermath) regroup(victims []int32) {
	copied := false
	for _, u := range victims {
		unit := &a.s.Units[u]
		if !elastic(unit) {
			continue
		}
		if !copied {
			a.c.groups, a.s.gangs, copied = a.groups(), maps.Clone(a.s.gangs), true
		}
		left := slices.DeleteFunc(slices.Clone(a.c.groups[unit.PodGroup]), func(m int32) bool { return a.gone[m] || !elastic(&a.s.Units[m]) })
		a.c.groups[unit.PodGroup] = left
		a.s.gangs.set(&a.s, unit.PodGroup, left)
	}
}

// groups returns a copy of the map from the UID of a PodGroup to its units.
func (a *aftermath) groups() map[string][]int32 {
	if a.c.groups != nil {
		return maps.Clone(a.c.groups)
	}
	groups := make(map[string][]int32)
	for u := range a.s.Units {
		if uid := a.s.Units[u].PodGroup; uid != "" {
			groups[uid] = append(groups[uid], int32(u))
		}
	}
	return groups
}

// occupy subtracts a pod's request from the free room of a node and adds it to the usage of the
// pod's queue.
func (a *aftermath) occupy(node int32, request Amounts, queue string) {
	room := a.room(node)
	for r, v := range request {
		room[r] = fairshare.Add(room[r], -fairshare.Used(v))
	}
	a.use(queue, request, 1)
}

func (a *aftermath) room(node int32) []int64 { return a.c.later[int(node)*a.c.dims:][:a.c.dims] }

// use adds a request to the usage of a queue, or subtracts it if sign is -1.
func (a *aftermath) use(queue string, request Amounts, sign int64) {
	if q := a.s.Queues; q != nil && q.Tree != nil {
		q.Tree.Use(q.used, q.Tree.LeafOf(queue), request, sign)
	}
}

// decide makes a decision for a replacement, like Decide. It ignores affinity and other filters: a
// node admits a replacement if it has enough room. If there is no room, the Decision has only its
// outcome.
func (a *aftermath) decide(p *Preemptor) Decision {
	v := newView(&a.s, p, Arithmetic{})
	v.meter = a.whole.v.meter
	sr := newSearch(v, slices.Concat(a.whole.protections, []protection{goneUnits{a.gone}}))
	sr.outcomeOnly = true
	return sr.run()
}

// carryOut applies the decision for a replacement to the aftermath, and returns the number of pods
// that the replacement evicts.
func (a *aftermath) carryOut(p *Preemptor, d *Decision) (pods int) {
	requests := make(map[string]Amounts)
	for _, class := range p.Classes {
		for _, m := range class.Members {
			requests[m.UID] = class.Request
		}
	}
	var victims []int32
	for i := range d.Victims {
		pods += len(d.Victims[i].Pods)
		if u := a.unitOf(&d.Victims[i]); u >= 0 {
			victims = append(victims, u)
		}
	}
	a.evict(victims)
	for _, place := range d.Placements {
		if n := a.nodeNamed(place.Node); n >= 0 {
			a.occupy(n, requests[place.UID], p.Queue)
		}
	}
	return pods
}

// nodeNamed returns the index of the node with a name; -1 if there is none.
func (a *aftermath) nodeNamed(name string) int32 {
	at, ok := slices.BinarySearchFunc(a.c.byName, name, func(n int32, name string) int { return strings.Compare(a.s.Nodes[n].Name, name) })
	if !ok {
		return -1
	}
	return a.c.byName[at]
}

// unitOf returns the index of the unit of a victim; -1 if no pod of the unit is on a node of the
// snapshot.
func (a *aftermath) unitOf(victim *Victim) int32 {
	for i := range victim.Pods {
		n := a.nodeNamed(victim.Pods[i].Node)
		if n < 0 {
			continue
		}
		for _, u := range a.c.nodes[n].units {
			if unit := &a.s.Units[u]; unit.UID == victim.UID && unit.Name == victim.Name && unit.Namespace == victim.Namespace && !a.gone[u] {
				return u
			}
		}
	}
	return -1
}

// goneUnits is a protection of units that are already evicted, so that no search evicts them a
// second time.
type goneUnits struct{ units map[int32]bool }

// ruleEvicted is the rule of goneUnits. No Decision contains it.
const ruleEvicted Rule = "Evicted"

func (e goneUnits) protects(_ *ruling, u int32) (Verdict, bool) {
	return Verdict{Rule: ruleEvicted}, e.units[u]
}

func (e goneUnits) about(*ruling) iter.Seq[int32] { return maps.Keys(e.units) }
