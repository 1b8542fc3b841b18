package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

const (
	// ReportDelay is the minimum time that a gang is without room before its members report this.
	// Most gangs find room in a shorter time.
	ReportDelay = time.Second
	// ReportAgain is the minimum time between two messages of a member. Without it, a member would
	// get a new message each time that a number in the message changes.
	ReportAgain = 10 * time.Second
)

// report is the report on the pending members of one gang, with the times to write it. The
// framework reports only on pods that had a scheduling cycle. Members other than the leader wait in
// PreEnqueue and have no cycle, so the scheduler reports on them itself.
type report struct {
	// verdict is the verdict of the last decision that found no room; zero if the gang has room, or
	// had no decision.
	verdict workload.Verdict
	// lacksRoom is true if more free room would help.
	lacksRoom bool
	// since is the time when the gang was first without room.
	since time.Time
	// look is the time of the next check of the members; zero if no check is scheduled.
	look time.Time
	// told maps members to the time of their last report.
	told map[UID]time.Time
	// checking is true while the members are checked.
	checking bool
}

// isEmpty reports whether there is nothing to report, and nothing was reported.
func (r *report) isEmpty() bool {
	return r.verdict == workload.Verdict{} && r.look.IsZero() && len(r.told) == 0 && !r.checking
}

// lookBy schedules a check of the members at the given time, unless an earlier check is scheduled.
func (r *report) lookBy(at time.Time) {
	if r.look.IsZero() || at.Before(r.look) {
		r.look = at
	}
}

// FoundNoRoom records the verdict of a decision that placed no member of a gang. lacksRoom is true
// if more room would help. If so, the verdict is reported only after the gang has lacked room for
// [ReportDelay].
func (gs *Gangs) FoundNoRoom(key workload.Key, v workload.Verdict, lacksRoom bool, now time.Time) {
	gs.change(key, func(g *gang) {
		r := &g.report
		if !lacksRoom {
			r.since = time.Time{}
		} else if r.since.IsZero() {
			r.since = now
		}
		r.verdict, r.lacksRoom = v, lacksRoom
		r.lookBy(now.Add(ReportDelay))
	})
}

// FoundRoom records that a gang has room. The previous verdict is not reported any more.
func (gs *Gangs) FoundRoom(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.report.verdict, g.report.since = workload.Verdict{}, time.Time{} })
}

// CheckReport schedules a check of the report on a gang's members. Call it after the members, or
// their conditions in the API, have changed.
func (gs *Gangs) CheckReport(key workload.Key, now time.Time) {
	gs.change(key, func(g *gang) { g.report.lookBy(now.Add(ReportDelay)) })
}

// CheckReported is like CheckReport, for a gang that has something to report or has reported
// something. For any other gang, it does nothing.
func (gs *Gangs) CheckReported(key workload.Key, now time.Time) {
	gs.changeKnown(key, func(g *gang) {
		if !g.report.isEmpty() {
			g.report.lookBy(now.Add(ReportDelay))
		}
	})
}

// DropReport deletes the report on a gang.
func (gs *Gangs) DropReport(key workload.Key) {
	gs.changeKnown(key, func(g *gang) { g.report = report{} })
}

// ReportsDue returns the gangs whose members must be checked now, in the order of the times of
// their checks.
func (gs *Gangs) ReportsDue(now time.Time) []workload.Key {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	var out []workload.Key
	for key := range gs.reported {
		if at := gs.records[key].gang.report.look; !at.IsZero() && !at.After(now) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, func(a, b workload.Key) int {
		return cmp.Or(gs.records[a].gang.report.look.Compare(gs.records[b].gang.report.look), a.Compare(b))
	})
	return out
}

// BeginReport begins a check of a gang's members. It returns the verdict to report, and clears the
// time of the next check. The caller must end the check with [Gangs.Report].
func (gs *Gangs) BeginReport(key workload.Key) (v workload.Verdict) {
	gs.change(key, func(g *gang) {
		g.report.look, g.report.checking = time.Time{}, true
		v = g.report.verdict
	})
	return v
}

// Report ends a check, and selects at most the given number of members for a message now. pending
// has all pending members, and outdated the pending members with an outdated condition. If outdated
// members are not selected, Report schedules a later check for them. It forgets members that are no
// longer pending.
func (gs *Gangs) Report(key workload.Key, pending, outdated []UID, most int, now time.Time) (told []UID) {
	gs.change(key, func(g *gang) {
		g.report.checking = false
		told = g.report.tell(pending, outdated, most, now)
	})
	return told
}

// tell does the work of [Gangs.Report] for one record.
func (r *report) tell(pending, outdated []UID, most int, now time.Time) (told []UID) {
	last := make(map[UID]time.Time, len(r.told))
	for _, uid := range pending {
		if at, ok := r.told[uid]; ok {
			last[uid] = at
		}
	}
	r.told = last
	if r.lacksRoom && r.verdict != (workload.Verdict{}) && now.Sub(r.since) < ReportDelay && len(outdated) > 0 {
		r.lookBy(r.since.Add(ReportDelay))
		return nil
	}
	for _, uid := range outdated {
		again := last[uid].Add(ReportAgain)
		switch {
		case !last[uid].IsZero() && again.After(now):
			r.lookBy(again)
		case len(told) == most:
			r.lookBy(now)
		default:
			told = append(told, uid)
			last[uid] = now
			r.lookBy(now.Add(ReportAgain))
		}
	}
	return told
}
