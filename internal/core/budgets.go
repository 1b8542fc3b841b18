package core

import "slices"

// budgetDraw has the number of evictions that each PodDisruptionBudget still allows. The number
// decreases when a search adds victims.
type budgetDraw struct {
	s    *Snapshot
	left []int64
	// settled has the units that are certain to be evicted, by index. settle has already subtracted
	// their pods from the budgets, so evict and spare ignore them.
	settled map[int32]bool
}

func newBudgetDraw(s *Snapshot) *budgetDraw {
	left := make([]int64, len(s.Budgets))
	for i := range s.Budgets {
		left[i] = int64(s.Budgets[i].Allowed)
	}
	return &budgetDraw{s: s, left: left, settled: make(map[int32]bool)}
}

// newBudgetDraw returns a budgetDraw that has counted no eviction yet. It returns nil if no unit
// has a budget.
func (v *problem) newBudgetDraw() *budgetDraw {
	if !v.c.budgeted {
		return nil
	}
	return newBudgetDraw(v.s)
}

// settle counts the eviction of a unit permanently: later calls of evict and spare for the unit
// have no effect.
func (d *budgetDraw) settle(unit int32) {
	d.evict(unit)
	d.settled[unit] = true
}

// unsettle undoes settle.
func (d *budgetDraw) unsettle(unit int32) {
	delete(d.settled, unit)
	d.spare(unit)
}

// evict subtracts all pods of a unit from their budgets. It returns the number of pods whose
// eviction a budget does not allow any more.
func (d *budgetDraw) evict(unit int32) int {
	if d.settled[unit] {
		return 0
	}
	broken := 0
	pods := d.s.Units[unit].Pods
	for i := range pods {
		breaks := false
		for _, b := range pods[i].Budgets {
			d.left[b]--
			breaks = breaks || d.left[b] < 0
		}
		if breaks {
			broken++
		}
	}
	return broken
}

// spare undoes evict: it adds all pods of a unit to their budgets.
func (d *budgetDraw) spare(unit int32) {
	if d.settled[unit] {
		return
	}
	pods := d.s.Units[unit].Pods
	for i := range pods {
		for _, b := range pods[i].Budgets {
			d.left[b]++
		}
	}
}

// splitByBudgets splits units into two lists and keeps their order. It counts the units as evicted
// one after the other. breaking has the units whose eviction breaks a budget after the evictions of
// the units before them.
func splitByBudgets(s *Snapshot, units []int32) (breaking, others []int32) {
	if len(s.Budgets) == 0 {
		return nil, units
	}
	draw := newBudgetDraw(s)
	for _, u := range units {
		if draw.evict(u) > 0 {
			breaking = append(breaking, u)
		} else {
			others = append(others, u)
		}
	}
	return breaking, others
}

// breaksAlone reports whether the eviction of a unit breaks a budget even if no other unit is
// evicted.
func breaksAlone(s *Snapshot, unit int32) bool {
	for i := range s.Units[unit].Pods {
		for _, b := range s.Units[unit].Pods[i].Budgets {
			if s.Budgets[b].Allowed <= 0 {
				return true
			}
		}
	}
	if len(s.Units[unit].Pods) == 1 {
		return false
	}
	return newBudgetDraw(s).evict(unit) > 0
}

// breakers returns the potential victims whose own eviction breaks a budget, even if no other unit
// is evicted.
func breakers(s *Snapshot, c *columns, victims *potentialVictims) []int32 {
	if !c.budgeted {
		return nil
	}
	var units []int32
	for u := range s.Units {
		unit := &s.Units[u]
		if int64(s.priority(int32(u))) < victims.below && draws(unit) && breaksAlone(s, int32(u)) {
			units = append(units, int32(u))
		}
	}
	return slices.Clip(units)
}

// draws reports whether any pod of the unit has a disruption budget.
func draws(u *Unit) bool {
	for i := range u.Pods {
		if len(u.Pods[i].Budgets) > 0 {
			return true
		}
	}
	return false
}
