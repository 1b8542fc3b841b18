package core

// priorityPolicy entitles a preemptor to all units of lower priority.
type priorityPolicy struct {
	*ruling
	v     *view
	count map[Rule]int
}

func (b *priorityPolicy) rules() *ruling { return b.ruling }

func (b *priorityPolicy) entitlement(u int32) Verdict { return b.byPriority(b.s.Units[u].Priority) }

// potentialVictims are the units that one preemptor may take (KEP-5710, "Identify the list of all potential victims"):
// on every node those below a priority, which are a prefix of its column, but for the spared ones.
type potentialVictims struct {
	// below is the lowest priority that is safe.
	below int64
	// spared are units of lower priority that a rule protects nonetheless, or that a search leaves alone.
	spared map[int32]bool
	// count is how many units may be taken.
	count int
}

// spare takes a unit of lower priority off the potential victims.
func (pv *potentialVictims) spare(u int32) {
	if pv.spared == nil {
		pv.spared = make(map[int32]bool)
	}
	if !pv.spared[u] {
		pv.spared[u] = true
		pv.count--
	}
}

// victims judges the units of one priority at a time, and one by one those that protections may be about.
func (b *priorityPolicy) victims() potentialVictims {
	pv := potentialVictims{below: int64(b.p.Priority)}
	b.count = make(map[Rule]int)
	for priority, n := range b.c.perPriority {
		switch v := b.byPriority(priority); {
		case v.Eligible:
			pv.count += n
		case n > 0:
			b.count[v.Rule] += n
		}
	}
	units, judged := b.special(), make(map[int32]bool)
	if b.judgedAlone(-1) {
		units = b.everyUnit
	}
	for u := range units {
		if judged[u] {
			continue
		}
		judged[u] = true
		b.except(&pv, u)
	}
	return pv
}

// except has a unit count by its own verdict, and not with others of its priority.
func (b *priorityPolicy) except(pv *potentialVictims, u int32) {
	v, alike := judge(b, u), b.byPriority(b.s.Units[u].Priority)
	if v == alike || v.Eligible {
		return
	}
	if alike.Eligible {
		pv.spare(u)
	} else if b.count[alike.Rule]--; b.count[alike.Rule] == 0 {
		delete(b.count, alike.Rule)
	}
	b.count[v.Rule]++
}

// search is the search of KEP-5710.
func (b *priorityPolicy) search(sr *search) Decision {
	sub := b.everything(sr, nil)
	if f, ok := sub.pick(); ok {
		return sub.preempting(f)
	}
	return sub.infeasible()
}

func (b *priorityPolicy) everything(sr *search, _ *scratch) *search {
	sr.v.narrowTo(b.victims())
	return sr
}

// Nothing bounds which units go together.

func (b *priorityPolicy) fits([]int32) (bound, bool) { return bound{}, true }

func (b *priorityPolicy) part(_ *nodeColumn, positions []int32) []int32 { return positions }

func (b *priorityPolicy) bounded() bool { return false }

func (b *priorityPolicy) potential() int { return b.v.victims.count }

func (b *priorityPolicy) potentialOn(n int32) []int32 {
	col := b.v.column(n)
	return col.units[:col.count(b.v.victims.below)]
}

func (b *priorityPolicy) roomOn(n int32) []int64 {
	v := b.v
	if v.c.top[n] < v.victims.below && v.thinned == nil {
		return v.c.all[int(n)*v.dims:][:v.dims]
	}
	// Not all of its units may go, so the column has to tell.
	col := v.column(n)
	return col.sum(col.count(v.victims.below), v.dims)
}

func (b *priorityPolicy) protected() map[Rule]int { return b.count }

// named are the units that a protection keeps in spite of their priority, then the ones closest to the preemptor's
// priority.
func (b *priorityPolicy) named() []int32 {
	v, top := b.v, topUnits{s: b.s, sign: -1, most: capUnits}
	for u := range v.victims.spared {
		top.add(u)
	}
	if b.count[RuleNotLowerPriority] == 0 {
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

func (b *priorityPolicy) passing() []timed {
	var units []timed
	for u := range b.v.victims.spared {
		if v := judge(b, u); v.passes() {
			units = append(units, timed{unit: u, verdict: v})
		}
	}
	return units
}
