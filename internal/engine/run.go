package engine

import (
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// ShortTime is the time that a group may run fewer members than it needs before its run ends. The
// delay is needed because the success of a member may become known after the member has stopped
// running.
const ShortTime = time.Second

// Run describes one run of a group: the time while it has enough members.
type Run struct {
	// Start is the time since when the group is whole. A group is whole if minCount members ran at
	// the same time and have run or succeeded since then. Start is in whole seconds, as in the API,
	// and zero if the group is not whole.
	Start time.Time
	// Clock is the start of the guaranteed times; see [clock]. It is zero until minCount members
	// have a node at the same time.
	Clock time.Time
	// Sealed summarizes the terms that the members had when they were placed.
	Sealed Sealed
	// ShortSince is the time since when too few members run; zero if enough do.
	ShortSince time.Time
	// DegradedSince is the time when a gang that had enough members began to have too few; see
	// [run.followPlaces]. It is zero if the gang has enough.
	DegradedSince time.Time
	// ExtraSince is the time when a part that a whole gang does not need lost members, but not all.
	// It is zero if no such part lacks members. The API does not have this time.
	ExtraSince time.Time
}

// hasMoved reports whether the run differs from before in its start, its clock, the terms of its
// members, or the time of its degradation.
func (r *Run) hasMoved(before *Run) bool {
	return !r.Start.Equal(before.Start) || !r.Clock.Equal(before.Clock) || r.Sealed != before.Sealed || !r.DegradedSince.Equal(before.DegradedSince)
}

// run is a [Run] with the state that the Run is computed from.
type run struct {
	Run
	// known is true once a look at the members has ended; see [Gangs.EndLook].
	known bool
	// group is the UID of the group. A later group with the same name has another UID.
	group string
	// began is the value of Gangs.begun when Clock last changed; zero if Clock has not changed
	// since the first look.
	began uint64
	// whole has the members that ran or had succeeded when the group last had enough members. It is
	// nil if the scheduler has not seen the group whole.
	whole Set
	places
	clock
	// touched is true if members were created, deleted or changed since the last look, or if too
	// few members run.
	// lost is true if a member lost its place since the last look.
	touched, lost bool
	// settled is true if this process leads, and no member was assumed without a node during the
	// last look.
	settled bool
	// stale is the value that [Gangs.GoesStale] recorded last.
	stale bool
}

func (r *run) isEmpty() bool { return !r.known && !r.touched && !r.lost && r.clock.isEmpty() }

// Group describes a group, from the PodGroup or the object of another API.
type Group struct {
	UID string
	// MinCount is 0 for a group that is no gang.
	MinCount int
	// Start and DegradedSince are the times in the group's status.
	Start, DegradedSince time.Time
	// Scheduled is true if the status reports that minCount members have a node.
	Scheduled bool
	// UnscheduledSince is the time since when the status reports that too few members have a node,
	// or reports nothing. It is zero if the status reports enough members, or describes an older
	// spec.
	UnscheduledSince time.Time
	// Ambiguous is true if two APIs have a group with this name.
	Ambiguous bool
	// Parts divides a gang whose members cannot all replace each other; nil for other groups.
	Parts *Parts
}

func (g *Group) isGang() bool { return g.MinCount > 0 }

// Parts describes the parts of a gang: the roles of its members, or the PodGroups of a tree.
type Parts struct {
	// Needs maps the names of the known parts to the number of members that each part needs.
	Needs map[string]int
	// IsWhole reports whether the placed members are enough. placed is their number in each part.
	// IsWhole has no side effects.
	IsWhole func(placed map[string]int) bool
	// Extra returns the parts with too few members that a whole gang does not need, and the numbers
	// of missing members. It has no side effects; nil if there are no such parts.
	Extra func(placed map[string]int) map[string]int
}

// isWhole reports whether the placed members of each part are enough for the group.
func (g *Group) isWhole(placed map[string]int) bool {
	if g.Parts != nil {
		return g.Parts.IsWhole(placed)
	}
	sum := 0
	for _, n := range placed {
		sum += n
	}
	return sum >= g.MinCount
}

// Member is a group's member that has a node or has succeeded.
type Member struct {
	UID UID
	// Part is the name of the member's part; see [Parts]. It is "" if the group has no parts.
	Part string
	// Running is true in phase Running, and Succeeded in phase Succeeded. If both are false, the
	// member has a node and does not run yet.
	Running, Succeeded bool
	Created, Scheduled time.Time
	// Terms are the facts that were recorded when the member was placed; nil if they are not known.
	Terms *Terms
}

// ran reports whether the member runs or has succeeded.
func (m *Member) ran() bool { return m.Running || m.Succeeded }

// Touch records that members of a group were created, deleted or changed.
func (gs *Gangs) Touch(key workload.Key) {
	gs.change(key, func(g *gang) { g.touches(gs.now()) })
}

// touches records a change of the members. now is a value of Gangs.clock.
func (g *gang) touches(now uint64) { g.run.touched, g.changedAt = true, now }

// Lost records that a member of a group has lost its place, or is about to lose it.
func (gs *Gangs) Lost(key workload.Key) {
	gs.change(key, func(g *gang) { g.run.touched, g.run.lost, g.changedAt = true, true, gs.now() })
}

// ForgetRun drops the run of a group whose PodGroup was deleted. The clock stays until the last
// member is removed. So the clock continues if a PodGroup with the same name is created.
func (gs *Gangs) ForgetRun(key workload.Key) {
	gs.change(key, func(g *gang) {
		g.run, g.leftAt = run{Run: Run{Clock: g.run.Clock}, clock: g.run.clock}, gs.now()
	})
}

// Touched returns the groups that need a look: members were created, deleted or changed since the
// last look, or too few members run.
func (gs *Gangs) Touched() []workload.Key { return gs.list(gs.touched) }

// WithLost returns the groups with a member that lost its place since the last look.
func (gs *Gangs) WithLost() []workload.Key { return gs.list(gs.lost) }

// Degraded returns the groups that were degraded at the last look; see [Run]. It also returns the
// groups that only lacked members of a part that they do not need.
func (gs *Gangs) Degraded() []workload.Key { return gs.list(gs.degraded) }

// MayLack reports whether any group is degraded, or lost a member since the last look. It takes no
// lock.
func (gs *Gangs) MayLack() bool { return gs.mayLack.Load() }

// IsWhole reports whether a group was whole at the last look.
func (gs *Gangs) IsWhole(key workload.Key) (whole bool) {
	gs.read(key, func(g *gang) { whole = !g.run.Start.IsZero() })
	return whole
}

// DegradedSince returns the time since when a group has been degraded, as of the last look; zero if
// the group is not degraded.
func (gs *Gangs) DegradedSince(key workload.Key) (since time.Time) {
	gs.read(key, func(g *gang) { since = g.run.DegradedSince })
	return since
}

// GoesStale records whether a group has been degraded for too long. It returns true only if stale
// is true and the last call recorded false.
func (gs *Gangs) GoesStale(key workload.Key, stale bool) (begins bool) {
	gs.change(key, func(g *gang) {
		begins = stale && !g.run.stale
		g.run.stale = stale
	})
	return begins
}

// Mark returns the number of runs that have begun so far. Pass it to [Gangs.HasBegun].
func (gs *Gangs) Mark() uint64 {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return gs.begun
}

// HasBegun reports whether the clock of a group has started since a [Gangs.Mark]. If so, a decision
// from before the mark is outdated.
func (gs *Gangs) HasBegun(key workload.Key, mark uint64) (has bool) {
	gs.read(key, func(g *gang) { has = !g.run.Clock.IsZero() && g.run.began > mark })
	return has
}

// Current returns the run of the group with this UID. ok is false if the caller must look at the
// members first: the run is not known, or a member has changed since the last look.
func (gs *Gangs) Current(key workload.Key, uid string) (current Run, ok bool) {
	gs.read(key, func(g *gang) {
		current, ok = g.run.Run, g.run.known && g.run.group == uid && !g.run.touched
	})
	return current, ok
}

// BeginLook begins a look at the members of a group: the caller then lists the members, and passes
// the list to [Gangs.EndLook]. Several looks may run at the same time. A change between the start
// and the end of a look causes another look.
func (gs *Gangs) BeginLook(key workload.Key) (look uint64) {
	gs.change(key, func(g *gang) {
		g.looks++
		look = gs.now()
	})
	return look
}

// EndLook ends a look. It updates the run of the group from the members that have a node or have
// succeeded, and returns the run. moved is true if decisions about the group may change. total is
// the number of members in any state. EndLook ignores the members in two cases: a look that began
// later has ended, or the last member was removed during the look.
func (gs *Gangs) EndLook(key workload.Key, look uint64, of *Group, placed []Member, total int, now time.Time) (out Run, moved bool) {
	gs.change(key, func(g *gang) {
		g.looks--
		if look < g.leftAt || look < g.lookedAt {
			out = g.run.Run
			return
		}
		g.lookedAt = look
		changed := g.changedAt > look
		g.run.touched, g.run.lost = g.run.touched && changed, g.run.lost && changed
		if total == 0 {
			g.run = run{touched: g.run.touched, lost: g.run.lost}
			return
		}
		isNew := !g.run.known || g.run.group != of.UID
		g.run.settled = gs.leads && !changed && len(g.placing.reserved) == 0
		before := g.run.follow(of, placed, now)
		if out, moved = g.run.Run, g.run.hasMoved(&before); !out.Clock.Equal(before.Clock) {
			if gs.begun++; !isNew {
				g.run.began = gs.begun
			}
		}
		if !out.Start.IsZero() && !out.ShortSince.IsZero() {
			// Request another look. The run ends after ShortTime even if no further event comes.
			g.run.touched = true
		}
	})
	return out, moved
}

// follow updates a run from the members of its group. It returns the previous state of the run.
func (r *run) follow(g *Group, placed []Member, now time.Time) (before Run) {
	isNew := !r.known || r.group != g.UID
	isFirst := isNew && len(r.had) == 0
	if isNew {
		*r = run{
			Run: Run{Start: g.Start, Clock: r.clockBefore(g), DegradedSince: g.DegradedSince}, known: true, group: g.UID, places: placesOf(g),
			clock: r.clock, touched: r.touched, lost: r.lost, settled: r.settled,
		}
	}
	if before = r.Run; isNew && before.Start.IsZero() {
		r.Start = seenWhole(g, placed)
	}
	if !r.Start.IsZero() && g.Start.After(r.Start) {
		// The status has a later start, which another process has written as the leader. Use this
		// start.
		r.Start = g.Start
	}
	r.followPlaces(g, placed, now)
	r.stale = r.stale && !r.DegradedSince.IsZero()
	r.followClock(g, placed, isFirst)
	r.followStart(g, placed, now)
	r.followFirst(g, placed)
	return before
}

// isShort reports whether too few members have run for ShortTime. The run has then ended.
func (r *run) isShort(now time.Time) bool {
	return !r.Start.IsZero() && !r.ShortSince.IsZero() && now.Sub(r.ShortSince) >= ShortTime
}

// followStart updates the start of a run from the current members.
func (r *run) followStart(g *Group, placed []Member, now time.Time) {
	ran, running := ranOf(placed)
	if running == 0 || len(ran) < g.MinCount {
		if r.ShortSince.IsZero() {
			r.ShortSince = now
		}
		if r.isShort(now) {
			r.Start = time.Time{}
		}
		return
	}
	left := 0
	for i := range ran {
		if r.whole.Has(ran[i].UID) {
			left++
		}
	}
	switch {
	case r.Start.IsZero():
	case !r.ShortSince.IsZero() && len(r.whole) > 0 && left < g.MinCount:
		// The run has ended: the group lacked members, and fewer than minCount of the earlier
		// members are left.
		r.Start = time.Time{}
	case left < max(g.MinCount, 1):
		r.Start = wholeSince(r.Start, ran, g.MinCount)
	}
	if !goesBackTo(placed, r.Start) {
		r.Start = time.Time{}
	}
	if r.Start.IsZero() {
		if running < g.MinCount {
			return
		}
		r.Start = begin(placed, now)
	}
	if r.ShortSince = (time.Time{}); left != len(ran) || left != len(r.whole) {
		r.whole = make(Set, len(ran))
		for i := range ran {
			r.whole[ran[i].UID] = struct{}{}
		}
	}
}

// goesBackTo reports whether any placed member was created at or before a time. If every placed
// member is newer, facts about the group from that time do not concern the present members.
func goesBackTo(placed []Member, at time.Time) bool {
	return slices.ContainsFunc(placed, func(m Member) bool { return !m.Created.After(at) })
}

// ranOf returns the members that run or have succeeded, and the number of members that run.
func ranOf(placed []Member) (ran []Member, running int) {
	for _, m := range placed {
		if m.ran() {
			ran = append(ran, m)
		}
		if m.Running {
			running++
		}
	}
	return ran, running
}

// wholeSince returns the corrected start of a run. This is the later of two times: before, and the
// time when the last of minCount members was scheduled. The given start may be too early. For
// example, an earlier process wrote it, and members were replaced since then.
func wholeSince(before time.Time, ran []Member, minCount int) time.Time {
	times := make([]time.Time, len(ran))
	for i := range ran {
		times[i] = ran[i].Scheduled
	}
	slices.SortFunc(times, time.Time.Compare)
	if at := times[max(minCount, 1)-1]; at.After(before) {
		return at
	}
	return before
}

// seenWhole returns the start of a group that is whole at the first look and has no start in its
// status. An earlier process may not have written the start, and groups of other APIs have no such
// field. It returns zero if the group is not whole.
func seenWhole(g *Group, placed []Member) time.Time {
	ran, running := ranOf(placed)
	if running < max(g.MinCount, 1) {
		return time.Time{}
	}
	return wholeSince(time.Time{}, ran, g.MinCount)
}

// begin returns the start of a run whose group is seen whole for the first time: now. The API
// server's clock may be ahead, so that all members seem to be created after now. The start is then
// the creation time of the oldest member on a node.
func begin(placed []Member, now time.Time) time.Time {
	var first time.Time
	for _, m := range placed {
		if !m.Succeeded && (first.IsZero() || m.Created.Before(first)) {
			first = m.Created
		}
	}
	if first.After(now) {
		return first
	}
	return now.Truncate(time.Second)
}
