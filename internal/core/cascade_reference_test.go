package core

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// refCascade returns the number of evictions by the replacements of d.Victims. The tests compare
// [Cascade] with it. For each replacement, refCascade decides on a new snapshot without the
// victims. There, the preemptor and earlier replacements are static pods, which cannot be evicted.
func refCascade(t *rapid.T, s *Snapshot, p *Preemptor, kinds map[int]Replacement, d *Decision) (evictions int) {
	world := *s
	world.Nodes, world.Units, world.Budgets = slices.Clone(s.Nodes), slices.Clone(s.Units), slices.Clone(s.Budgets)
	for i := range world.Nodes {
		world.Nodes[i].Free = slices.Clone(world.Nodes[i].Free)
	}
	for i := range s.Leaving {
		if n := s.Leaving[i].Node; n >= 0 {
			addTo(world.Nodes[n].Free, s.Leaving[i].Request)
		}
	}
	world.Leaving = nil
	var returning []*Preemptor
	gangs := make(map[string]*Preemptor)
	for _, u := range unitsNamed(s, d.Victims) {
		unit := &s.Units[u]
		kind, isReplaced := kinds[u]
		if isReplaced && kind == NoReplacement {
			continue
		}
		isMember := !unit.Group && unit.PodGroup != "" && unit.Membership != nil && unit.Membership.MinCount > 0
		back := &Preemptor{Name: unit.Name, UID: unit.UID, PodGroup: unit.PodGroup, Gang: unit.Group || isMember, Priority: int32(int64(unit.OwnPriority()) - unit.RaisedBy)}
		if isMember && gangs[unit.PodGroup] != nil {
			back = gangs[unit.PodGroup]
		} else {
			returning = append(returning, back)
		}
		if isMember {
			gangs[unit.PodGroup] = back
		}
		back.Never = back.Never || kind == ReplacementWaits
		for i := range unit.Pods {
			class := members(unit.Pods[i].UID, 1, len(back.Classes), unit.Pods[i].Request...)
			if unit.Role != nil {
				class.Role = unit.Role.Name
			}
			back.Classes = append(back.Classes, class)
		}
		if back.MinCount = len(back.Classes); isMember {
			staying := 0
			for v := range s.Units {
				if s.Units[v].PodGroup == unit.PodGroup && !slices.ContainsFunc(d.Victims, func(v2 Victim) bool { return v2.UID == s.Units[v].UID }) {
					staying++
				}
			}
			back.MinCount = min(max(int(unit.Membership.MinCount)-staying, 0), len(back.Classes))
		}
		if unit.Membership != nil {
			back.Queue = unit.Membership.Queue
		}
	}
	refCarryOut(&world, p, d)
	for _, back := range returning {
		back.Now, back.MinRuntime, back.IgnoresTolerations, back.Limits = p.Now, p.MinRuntime, p.IgnoresTolerations, p.Limits
		back.Order, back.CountsStops, back.Bands, back.Devices, back.Restart = p.Order, p.CountsStops, p.Bands, p.Devices, p.Restart
		next := mustDecide2(t, &world, back)
		for i := range next.Victims {
			evictions += len(next.Victims[i].Pods)
		}
		refCarryOut(&world, back, &next)
	}
	return evictions
}

// refCarryOut removes the victims of a decision from a snapshot, and adds the placed pods.
func refCarryOut(s *Snapshot, p *Preemptor, d *Decision) {
	for _, v := range d.Victims {
		u := slices.IndexFunc(s.Units, func(unit Unit) bool { return unit.UID == v.UID })
		for _, pod := range s.Units[u].Pods {
			if pod.Node >= 0 {
				addTo(s.Nodes[pod.Node].Free, pod.Request)
			}
			for _, b := range pod.Budgets {
				s.Budgets[b].Allowed--
			}
		}
		s.Units = slices.Delete(s.Units, u, u+1)
	}
	for _, place := range d.Placements {
		n := slices.IndexFunc(s.Nodes, func(node Node) bool { return node.Name == place.Node })
		for _, class := range p.Classes {
			if !slices.ContainsFunc(class.Members, func(m Member) bool { return m.UID == place.UID }) {
				continue
			}
			unit := Unit{Name: place.UID, UID: "placed-" + place.UID, Priority: math.MaxInt32, Static: true, Since: 1, Start: 1, Pods: []Pod{{UID: place.UID, Node: n, Request: class.Request}}}
			if p.Queue != "" {
				unit.Membership = &QueueMembership{Queue: p.Queue}
			}
			s.Units = append(s.Units, unit)
			for r, v := range class.Request {
				s.Nodes[n].Free[r] -= v
			}
		}
	}
}

// randomReplacements selects units that are not replaced, and units whose replacements never
// preempt. It maps their indexes to the kind.
func randomReplacements(pick chooser, s *Snapshot) map[int]Replacement {
	kinds := make(map[int]Replacement)
	for u := range s.Units {
		switch pick(6) {
		case 0:
			kinds[u] = NoReplacement
		case 1:
			kinds[u] = ReplacementWaits
		}
	}
	return kinds
}

// TestCascadeIsMeasured compares the cascade of decisions with refCascade.
func TestCascadeIsMeasured(t *testing.T) {
	t.Parallel()
	second := 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		shape := randomShape{
			nodes: 6, units: 20, full: true, members: 4, classes: 1 + pick(2), gang: pick(2) == 0, gangs: pick(2) == 0, whole: pick(2) == 0, groups: pick(2) == 0,
			budgets: pick(3) == 0, tolerations: pick(3) == 0, static: pick(3) == 0, leaving: true, lost: pick(2) == 0, banded: pick(3) == 0, stopped: pick(3) == 0,
		}
		s, p := randomCase(pick, shape)
		if pick(3) == 0 {
			s, p, _ = reclaimCase(t, shape)
		}
		kinds := randomReplacements(pick, s)
		p.Cascade = CascadeMeasure
		d, err := Decide(s, p, replacing{kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
		if d.Outcome != Preempts {
			return
		}
		if want := refCascade(t, s, p, kinds, &d); d.Cascade.Evictions != want || d.Cascade.Partial {
			t.Fatalf("%+v, want %d evictions", *d.Cascade, want)
		}
		if d.Cascade.Evictions > 0 {
			second++
		}
		off := *p
		off.Cascade = CascadeOff
		if plain := mustDecide2(t, s, &off); !slices.Equal(victimNames(&plain), victimNames(&d)) {
			t.Fatalf("victims %v, want %v as without the cascade", victimNames(&d), victimNames(&plain))
		}
	})
	if second == 0 {
		t.Error("No replacement preempted: the cases prove nothing")
	}
}

// TestCascadeDecides checks decisions for single pods with CascadeDecide. Among the nodes whose
// cheapest victims cost the least by the earlier criteria, the decision must have the lowest
// cascade. It must not cost more by the earlier criteria.
func TestCascadeDecides(t *testing.T) {
	t.Parallel()
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		pick := fromRapid(t)
		s, p := randomCase(pick, randomShape{
			nodes: 8, units: 20, full: true, budgets: pick(4) == 0, tolerations: pick(4) == 0, leaving: true, lost: pick(6) == 0, stopped: pick(3) == 0,
		})
		if pick(4) > 0 {
			// With this band, most outcomes with the same number of pods cost the same. So the
			// decision may evict a pod although a pod of lower priority would do. The replacement
			// of the evicted pod can then preempt the pod of lower priority.
			p.Bands = []Band{{Min: 0, Max: 5}}
		}
		kinds := randomReplacements(pick, s)
		off := mustDecide2(t, s, p)
		decides := *p
		decides.Cascade = CascadeDecide
		got, err := Decide(s, &decides, replacing{kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
		if got.Outcome != off.Outcome {
			t.Fatalf("%s, want %s as without the cascade", got.Outcome, off.Outcome)
		}
		if got.Outcome != Preempts {
			return
		}
		cost := func(d Decision) Score {
			broken := d.Score.BrokenBudgets
			withoutBands(t, s, p, &d)
			d.Score.BrokenBudgets = broken
			return *d.Score
		}
		if cost(got).compareBeforeCascade(cost(off)) != 0 {
			t.Fatalf("the victims cost %+v, want %+v by the criteria before the cascade", cost(got), cost(off))
		}
		least := math.MaxInt
		for n := range s.Nodes {
			one, err := Decide(s, p, replacing{only: map[int]bool{n: true}})
			if err != nil {
				t.Fatal(err)
			}
			if one.Outcome == Preempts && cost(one).compareBeforeCascade(cost(off)) == 0 {
				least = min(least, refCascade(t, s, p, kinds, &one))
			}
		}
		if got.Cascade.Evictions != least || got.Cascade.Partial {
			t.Fatalf("%+v on %s, want %d evictions", *got.Cascade, got.Placements[0].Node, least)
		}
		if !slices.Equal(victimNames(&got), victimNames(&off)) {
			changed++
		}
	})
	if changed == 0 {
		t.Error("The cascade changed no decision: the cases prove nothing")
	}
}
