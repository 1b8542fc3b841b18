package core

// priorityPolicy allows a preemptor to evict all units of lower priority.
type priorityPolicy struct {
	*ruling
	v     *problem
	count map[Rule]int
}

func (pp *priorityPolicy) rules() *ruling { return pp.ruling }

func (pp *priorityPolicy) entitlement(u int32) Verdict { return pp.entitledByPriority(u) }

// potentialVictims are the units that one preemptor may evict (KEP-5710, "Identify the list of all
// potential victims"). They are the units below a priority, except the protected ones. On each
// node, units are sorted by priority, so the potential victims come first.
type potentialVictims struct {
	// below is the lowest priority of units that may not be evicted.
	below int64
	// protected has the units with a priority lower than below that a rule protects, or that a
	// search excludes.
	protected map[int32]bool
	// count is the number of potential victims.
	count int
}

// protect removes a unit from the potential victims. The unit's priority must be lower than below.
func (pv *potentialVictims) protect(u int32) {
	if pv.protected == nil {
		pv.protected = make(map[int32]bool)
	}
	if !pv.protected[u] {
		pv.protected[u] = true
		pv.count--
	}
}

// victims returns the potential victims. It judges all units of one priority together, and units
// that may be protected one by one.
func (pp *priorityPolicy) victims() potentialVictims {
	pv := potentialVictims{below: int64(pp.p.Priority)}
	pp.count = make(map[Rule]int)
	for priority, n := range pp.c.perPriority {
		switch v := pp.byPriority(priority); {
		case v.Eligible:
			pv.count += n
		case n > 0:
			pp.count[v.Rule] += n
		}
	}
	units, judged := pp.special(), make(map[int32]bool)
	if pp.judgedAlone(-1) {
		units = pp.everyUnit
	}
	for u := range units {
		if judged[u] {
			continue
		}
		judged[u] = true
		pp.except(&pv, u)
	}
	return pv
}

// except corrects the counts if the verdict on unit u differs from the verdict on the other units
// of its priority.
func (pp *priorityPolicy) except(pv *potentialVictims, u int32) {
	v, alike := judge(pp, u), pp.byPriority(pp.s.Units[u].Priority)
	if v == alike || v.Eligible {
		return
	}
	if alike.Eligible {
		pv.protect(u)
	} else if pp.count[alike.Rule]--; pp.count[alike.Rule] == 0 {
		delete(pp.count, alike.Rule)
	}
	pp.count[v.Rule]++
}

// search runs the search of KEP-5710.
func (pp *priorityPolicy) search(sr *search) Decision {
	sub := pp.everything(sr, nil)
	if len(sr.p.Bands) > 0 {
		mem := sr.v.c.borrow()
		defer sr.v.c.handBack(mem)
		sub = sub.inBands(mem)
	}
	if f, ok := sub.pick(); ok {
		return sub.preempting(f)
	}
	// Bands do not change whether there is room, so report the search without bands.
	return sr.infeasible()
}

func (pp *priorityPolicy) everything(sr *search, _ *scratch) *search {
	sr.v.narrowTo(pp.victims())
	return sr
}

// fits always returns true, because this policy has no bounds on sets of units.

func (pp *priorityPolicy) fits([]int32) (bound, bool) { return bound{}, true }

func (pp *priorityPolicy) part(_ *nodeColumn, positions []int32) []int32 { return positions }

func (pp *priorityPolicy) bounded() bool { return false }

func (pp *priorityPolicy) potential() int { return pp.v.victims.count }

func (pp *priorityPolicy) potentialOn(n int32) []int32 {
	col := pp.v.column(n)
	return col.units[:col.count(pp.v.victims.below)]
}

func (pp *priorityPolicy) roomOn(n int32) []int64 {
	v := pp.v
	if v.c.top[n] < v.victims.below && v.thinned == nil {
		return v.c.all[int(n)*v.dims:][:v.dims]
	}
	// The node has protected units. Add up the list without them.
	col := v.column(n)
	return col.sum(col.count(v.victims.below), v.dims)
}

func (pp *priorityPolicy) protected() map[Rule]int { return pp.count }

// named lists protected units for messages, the least important first. These are units that a rule
// protects, and units that have the preemptor's priority or a higher one.
func (pp *priorityPolicy) named() []int32 {
	v, top := pp.v, topUnits{s: pp.s, sign: -1, most: capUnits}
	for u := range v.victims.protected {
		top.add(u)
	}
	if pp.count[RuleNotLowerPriority] == 0 {
		return top.units
	}
	for _, n := range v.c.byName {
		col := &v.c.nodes[n]
		if l := len(col.priorities); l == 0 || int64(col.priorities[l-1]) < v.victims.below {
			continue
		}
		for _, u := range col.units[col.count(v.victims.below):] {
			if !top.add(u) {
				break
			}
		}
	}
	return top.units
}

func (pp *priorityPolicy) passing() []timed {
	var units []timed
	for u := range pp.v.victims.protected {
		if v := judge(pp, u); v.passes() {
			units = append(units, timed{unit: u, verdict: v})
		}
	}
	return units
}
