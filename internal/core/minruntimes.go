package core

import (
	"maps"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// minRuntimeIndex counts the units that have each min-runtime setting of their profiles.
type minRuntimeIndex map[MinRuntime]int

// add counts a unit with the setting m; nil (an unknown profile) is ignored.
func (x minRuntimeIndex) add(m *MinRuntime) {
	if m != nil {
		x[*m]++
	}
}

// drop undoes add for one unit.
func (x minRuntimeIndex) drop(m *MinRuntime) {
	if m == nil {
		return
	}
	if x[*m]--; x[*m] == 0 {
		delete(x, *m)
	}
}

// defaultsIn returns all default min-runtimes: one of them protects a unit from this preemptor if
// no queue of the unit has a setting. They are the settings of the units' profiles and of the
// preemptor.
func defaultsIn(s *Snapshot, p *Preemptor) minRuntimeIndex {
	out := make(minRuntimeIndex)
	if s.columns != nil && s.columns.minRuntimes != nil {
		maps.Copy(out, s.columns.minRuntimes)
	} else {
		for i := range s.Units {
			out.add(s.Units[i].MinRuntime)
		}
	}
	out.add(&p.MinRuntime)
	return out
}

// defaultsOf returns the min-runtimes that protect a unit if no queue has a setting. They are the
// settings of the unit's profile. If the profile is unknown, the settings of the preemptor apply.
func (r *ruling) defaultsOf(u *Unit) *MinRuntime {
	if u.MinRuntime != nil {
		return u.MinRuntime
	}
	return &r.p.MinRuntime
}

// minRuntimeOf returns the time that a unit in the queue leaf must run before this preemptor may
// evict it, in nanoseconds. It also returns the index of the queue with this setting, or -1 if the
// default in m applies. If r.anyone is set, it returns the longest time for any preemptor.
func (r *ruling) minRuntimeOf(leaf int32, m *MinRuntime) (queue int32, runtime int64) {
	if r.anyone {
		return r.t.LongestMinRuntime(leaf, m.Preempt, m.Reclaim, m.Resolve == ResolveQueue)
	}
	if r.leaf < 0 || leaf < 0 || leaf == r.leaf {
		return r.t.MinRuntime(leaf, m.Preempt, fairshare.PreemptSetting)
	}
	from := leaf
	if m.Resolve != ResolveQueue {
		from = r.top(leaf)
	}
	return r.t.MinRuntime(from, m.Reclaim, fairshare.ReclaimSetting)
}

// longestMinRuntimeOf returns the longest min-runtime that protects any unit of a leaf queue from
// this preemptor, in nanoseconds.
func (r *ruling) longestMinRuntimeOf(leaf int32) (longest int64) {
	for m := range r.defaults {
		_, runtime := r.minRuntimeOf(leaf, &m)
		longest = max(longest, runtime)
	}
	return longest
}
