package engine

import (
	"cmp"
	"time"
)

// Terms are the settings of a group at the time when one of its members was placed: its queue,
// priority, minCount and disruption mode. Later changes of the group do not affect the member.
type Terms struct {
	// Queue is the leaf queue that the member counted for; "" for none.
	Queue string
	// Priority is the effective priority of the group.
	Priority int32
	// Class is the PriorityClass that Priority comes from.
	Class string
	// MinCount is 0 if the group was no gang.
	MinCount int
	// Whole is true if the group's disruption mode was PodGroup: its members are evicted together.
	Whole bool
	// Since is the start of the group's guaranteed times; see [clock]. It is zero if the clock had
	// not begun.
	Since time.Time
}

// Sealed combines the Terms of all placed members of a group. If the Terms of the members differ,
// the comment of each field says which value the field has.
type Sealed struct {
	// Known is true if the Terms of at least one member are known.
	Known bool
	// Queue and Class belong to the member with the lowest priority.
	Queue, Class string
	// Priority is the lowest priority.
	Priority int32
	// MinCount is the highest minCount in the Terms of any member.
	MinCount int
	// Split is true if the disruption mode was Pod when any member was placed. If so, single
	// members of the group may be evicted.
	Split bool
	// Mixed is true if members had different classes. MixedQueues is true if they had different
	// queues.
	Mixed, MixedQueues bool
}

// clock computes the start of the guaranteed times of a group's run. The guaranteed times,
// min-runtime and toleration, protect the group from preemptors for a while.
//
// A group gets its guaranteed times once in a run. The clock begins when minCount members have a
// node, and ends when no member has one. A member that is replaced, or a PodGroup that is created
// again, does not restart the clock. The clock moves at most once: to the start of the run, if the
// first members of the run still exist when the gang becomes whole.
type clock struct {
	// had has the members that had a node when the caller last listed the members; see
	// [Gangs.BeginLook].
	had Set
	// first has the members that had a node when the clock began. It is nil after the gang was
	// whole.
	first Set
	// bound is the first value of the clock: the time when minCount members had a node, before the
	// gang was whole. Members that were placed before the gang was whole have this time in their
	// annotation.
	bound time.Time
}

func (c *clock) isEmpty() bool { return len(c.had) == 0 && len(c.first) == 0 }

// clockBefore returns the clock of a group before the first look at its members. It is the clock of
// the run, or else the start in the group's status.
func (r *run) clockBefore(g *Group) time.Time {
	if r.Clock.IsZero() {
		return g.Start
	}
	return r.Clock
}

// followClock updates the clock of a run and the terms of its members. isFirst is true at this
// process's first look at the group.
func (r *run) followClock(g *Group, placed []Member, isFirst bool) {
	now := assignedOf(placed)
	assigned, known := len(now), 0
	for uid := range now {
		if r.had.Has(uid) {
			known++
		}
	}
	earliest := r.followSeals(placed)
	switch {
	case known > 0 || !earliest.IsZero():
	case isFirst && !r.Clock.IsZero() && goesBackTo(placed, r.Clock):
	case isFirst && !g.DegradedSince.IsZero() && goesBackTo(placed, g.DegradedSince):
		// An earlier process saw the gang whole, so the placed members belong to that run.
		r.Clock = firstScheduled(placed)
	default:
		// All members are new, so another run begins.
		r.Clock, r.first, r.bound = time.Time{}, nil, time.Time{}
	}
	r.had = now
	switch {
	case !earliest.IsZero() && (r.Clock.IsZero() || earliest.Before(r.Clock)):
		r.Clock, r.first = earliest, nil
	case r.Clock.IsZero() && assigned > 0 && len(placed) >= g.MinCount:
		r.Clock, r.first = wholeSince(time.Time{}, placed, g.MinCount), r.had
	}
}

// followSeals updates the terms of the members from their seals, the annotations with the Terms of
// each member. It returns the earliest Since in these Terms; zero for none. It ignores a Since that
// was recorded before the gang was whole, because the clock has moved to a later time.
func (r *run) followSeals(placed []Member) (earliest time.Time) {
	r.Sealed = Sealed{}
	for i := range placed {
		m := &placed[i]
		if m.Succeeded || m.Terms == nil {
			continue
		}
		r.Sealed.add(m.Terms)
		if at := m.Terms.Since; !at.IsZero() && !at.Equal(r.bound) && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	return earliest
}

// followFirst moves the clock of a gang that becomes whole to the start of its run. The clock moves
// only if minCount of the first members still run or have succeeded. So replacing a member does not
// extend the guaranteed times.
func (r *run) followFirst(g *Group, placed []Member) {
	if r.Start.IsZero() || r.first == nil {
		return
	}
	left := 0
	for i := range placed {
		if m := &placed[i]; m.Succeeded || m.Running && r.first.Has(m.UID) {
			left++
		}
	}
	if left >= g.MinCount {
		r.Clock, r.bound = r.Start, r.Clock
	}
	r.first = nil
}

func (s *Sealed) add(t *Terms) {
	s.Mixed = s.Mixed || s.Known && t.Class != s.Class
	s.MixedQueues = s.MixedQueues || s.Known && t.Queue != s.Queue
	// Compare all fields, so that the result does not depend on the order of the members.
	if first := cmp.Or(cmp.Compare(t.Priority, s.Priority), cmp.Compare(t.Queue, s.Queue), cmp.Compare(t.Class, s.Class)); !s.Known || first < 0 {
		s.Queue, s.Class, s.Priority = t.Queue, t.Class, t.Priority
	}
	s.Known, s.MinCount, s.Split = true, max(s.MinCount, t.MinCount), s.Split || !t.Whole
}

// firstScheduled returns the time when the first of the members that have not succeeded was
// scheduled.
func firstScheduled(placed []Member) (first time.Time) {
	for i := range placed {
		if m := &placed[i]; !m.Succeeded && !m.Scheduled.IsZero() && (first.IsZero() || m.Scheduled.Before(first)) {
			first = m.Scheduled
		}
	}
	return first
}

// assignedOf returns the members that have a node and have not succeeded.
func assignedOf(placed []Member) Set {
	out := make(Set, len(placed))
	for i := range placed {
		if !placed[i].Succeeded {
			out[placed[i].UID] = struct{}{}
		}
	}
	return out
}

// Guaranteed returns the start of the guaranteed times: the earlier of the clock and since. A zero
// time does not count. since is the start that the caller computed from the present members.
func (r *Run) Guaranteed(since time.Time) time.Time {
	if at := r.Clock; !at.IsZero() && (since.IsZero() || since.After(at)) {
		return at
	}
	return since
}
