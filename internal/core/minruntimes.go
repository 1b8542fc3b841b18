package core

import (
	"maps"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// minRuntimeIndex counts units by the min-runtimes of their profiles. Each distinct setting is a
// key.
type minRuntimeIndex map[MinRuntime]int

// add counts one more unit. A unit whose profile is unknown is not counted.
func (x minRuntimeIndex) add(m *MinRuntime) {
	if m != nil {
		x[*m]++
	}
}

// drop counts one unit less.
func (x minRuntimeIndex) drop(m *MinRuntime) {
	if m == nil {
		return
	}
	if x[*m]--; x[*m] == 0 {
		delete(x, *m)
	}
}

// defaultsIn returns all min-runtimes that protect any unit from this preemptor if no queue has a
// setting. They are the settings of the units' profiles and of the preemptor.
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

// defaultsOf returns the min-runtimes that protect a unit if no queue has a setting. They come from
// the unit's profile, or from the preemptor if the profile is unknown.
func (r *ruling) defaultsOf(u *Unit) *MinRuntime {
	if u.MinRuntime != nil {
		return u.MinRuntime
	}
	return &r.p.MinRuntime
}

// minRuntimeOf returns the time that a unit of a leaf queue must run before this preemptor may
// evict it. m has the defaults. The result also names the queue that has the setting; -1 if the
// default applies. For an unknown preemptor it returns the longest min-runtime.
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

// longestMinRuntimeOf returns the longest min-runtime of any unit of a leaf queue for this
// preemptor.
func (r *ruling) longestMinRuntimeOf(leaf int32) (longest int64) {
	for m := range r.defaults {
		_, runtime := r.minRuntimeOf(leaf, &m)
		longest = max(longest, runtime)
	}
	return longest
}
