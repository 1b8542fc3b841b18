package engine

import (
	"slices"
	"time"
)

// places records whether a gang had enough members on nodes at any earlier time. A gang that now
// has too few is then degraded, and not in its first placement.
type places struct {
	// complete is true if enough members had a node at the same time, and at least one member has
	// had a node since then.
	complete bool
	// minCount is the minCount of the gang at the last look. needs has the known needs of its
	// parts.
	minCount int
	needs    map[string]int
	// filled has the parts that once had enough members on nodes, and at least one member on a node
	// since then.
	filled map[string]bool
	// succeeded maps the members that have succeeded since the needs last changed to their parts.
	// It includes members whose pods were deleted, because their work is done.
	succeeded map[UID]string
}

// followNeeds updates the needs of a gang. It reports whether minCount or the need of a known part
// has changed, and whether one of them has been raised.
func (p *places) followNeeds(g *Group) (changed, raised bool) {
	changed, raised = p.minCount != g.MinCount, g.MinCount > p.minCount
	p.minCount = g.MinCount
	if g.Parts == nil {
		return changed, raised
	}
	if p.needs == nil {
		p.needs = make(map[string]int, len(g.Parts.Needs))
	}
	for part, need := range g.Parts.Needs {
		if before, known := p.needs[part]; known && before != need {
			changed, raised = true, raised || need > before
		}
		p.needs[part] = need
	}
	return changed, raised
}

// Lead records that this process leads from now on. Each gang with too few members needs another
// look: an earlier leader may have begun to bind the members. A standby does not check this,
// because the present leader may still be binding them.
func (gs *Gangs) Lead() {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.leads = true
	for key, r := range gs.records {
		if r.gang != nil && r.gang.run.known && !r.gang.run.complete {
			gs.transit(key, func(g *gang) { g.touches(gs.now()) })
		}
	}
}

// wasBound reports whether the scheduler began to bind the placed members together with all others
// that the gang needs, although the status does not show it. The scheduler binds no member before
// enough members are assumed. So a member with the present minCount in its terms shows that room
// was found for all of them. If such a member was scheduled after the status was written, and no
// other member is assumed, then others were lost.
//
// Terms from before the status do not count. The minCount may have been lowered and raised since
// then, so that the gang lost no member.
func (g *Group) wasBound(placed []Member) bool {
	return !g.UnscheduledSince.IsZero() && slices.ContainsFunc(placed, func(m Member) bool {
		return m.Terms != nil && m.Terms.MinCount >= g.MinCount && !m.Scheduled.Before(g.UnscheduledSince)
	})
}

// placesOf returns the places of a group at the first look. It reads the group's status, because an
// earlier process may have seen more members than there are now.
func placesOf(g *Group) places {
	p := places{complete: g.Scheduled || !g.DegradedSince.IsZero()}
	p.followNeeds(g)
	return p
}

// followPlaces updates the time since when a gang is degraded. A gang is degraded if all of the
// following hold:
//
//   - At least one member has a node.
//   - The members that have a node or have succeeded are too few: fewer than minCount, or fewer
//     than the gang needs of one of its parts.
//   - Earlier, they were enough, or the scheduler began to bind enough; see [Group.wasBound].
//
// So a gang is not degraded during its first placement. The time stays the same if one of several
// missing members is replaced. followPlaces also updates the time since when a part that a whole
// gang does not need lacks members.
func (r *run) followPlaces(g *Group, placed []Member, now time.Time) {
	have := make(map[string]int)
	for i := range placed {
		if m := &placed[i]; !m.Succeeded {
			have[m.Part]++
		}
	}
	if !g.mayBeDegraded(have) {
		r.places, r.DegradedSince, r.ExtraSince = places{}, time.Time{}, time.Time{}
		r.followNeeds(g)
		return
	}
	if changed, raised := r.followNeeds(g); changed {
		// A higher need does not make a gang degraded; only the loss of a member does. Forget the
		// members that succeeded earlier: the new needs do not include the deleted ones.
		r.complete = r.complete && (!raised || !r.DegradedSince.IsZero())
		r.succeeded = nil
		if raised {
			r.filled = nil
		}
	}
	r.complete = r.complete || r.settled && g.wasBound(placed)
	for i := range placed {
		if m := &placed[i]; m.Succeeded {
			if r.succeeded == nil {
				r.succeeded = make(map[UID]string)
			}
			r.succeeded[m.UID] = m.Part
		}
	}
	for _, part := range r.succeeded {
		have[part]++
	}
	switch {
	case g.isWhole(have):
		r.complete, r.DegradedSince = true, time.Time{}
	case r.complete && r.DegradedSince.IsZero():
		r.DegradedSince = now
	}
	switch lost := r.hasLostExtra(g, have); {
	case !lost:
		r.ExtraSince = time.Time{}
	case r.ExtraSince.IsZero():
		r.ExtraSince = now
	}
}

// mayBeDegraded reports whether a group is a gang with members on nodes, and the only group with
// its name. have is the number of placed members of each part.
func (g *Group) mayBeDegraded(have map[string]int) bool {
	return g.isGang() && !g.Ambiguous && len(have) > 0
}

// hasLostExtra reports whether a part that the gang does not need has lost members, but not all. It
// records the parts with enough members. have is the number of placed members of each part.
func (p *places) hasLostExtra(g *Group, have map[string]int) bool {
	if g.Parts == nil || g.Parts.Extra == nil {
		return false
	}
	extra, lost := g.Parts.Extra(have), false
	for part, need := range g.Parts.Needs {
		switch _, lacks := extra[part]; {
		case have[part] == 0:
			delete(p.filled, part)
		case have[part] >= need:
			if p.filled == nil {
				p.filled = make(map[string]bool)
			}
			p.filled[part] = true
		case lacks && p.filled[part]:
			lost = true
		}
	}
	return lost
}
