package gang

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// ShortTime is how long a group may run fewer members than it needs before its run ends. The
// success of a member may become known a moment after the member stops running.
const ShortTime = time.Second

// Run describes a group that runs.
type Run struct {
	// Start is the time since when the group is whole: minCount members ran together, and have run
	// or succeeded since. It is in whole seconds, as in the API. It is zero if the group is not
	// whole.
	Start time.Time
	// ShortSince is the time since when too few members run; zero if there are enough.
	ShortSince time.Time
	// DegradedSince is the time since when the group has lacked members that it had; see
	// [run.followPlaces]. It is zero if the group lacks none.
	DegradedSince time.Time
}

// run is a Run with the state that it is computed from.
type run struct {
	Run
	// group is the UID of the group, since another group may get the same name.
	group types.UID
	// began is the value of Runs.changes at the last change of Start; zero if Start has not changed
	// since the first look.
	began uint64
	// whole are the members that ran or had succeeded when there were last enough; nil if that has
	// not been seen.
	whole sets.Set[types.UID]
	places
}

// Runs tracks the runs of groups. Protections such as min-runtime count from the start of a run.
// The status of a PodGroup stores the start for the next process. Make one with NewRuns. Runs is
// safe for concurrent use.
type Runs struct {
	members func(types.NamespacedName) Members
	ready   func() bool
	moved   func(types.NamespacedName)

	mu   sync.Mutex
	runs map[types.NamespacedName]*run
	// touched are the groups with members that were created, deleted or changed since the last
	// look, and the groups that run too few members.
	touched sets.Set[types.NamespacedName]
	// degraded are the groups that lacked members at the last look. lost are the groups with a
	// member that lost its place since. mayLack is true if either has a group.
	degraded, lost sets.Set[types.NamespacedName]
	mayLack        atomic.Bool
	// changes counts the changes of starts, over all groups.
	changes uint64
}

// NewRuns returns Runs of groups. The function members lists the members of a group. Its lists are
// complete once ready returns true. Until then, Runs uses the times in the statuses.
//
// Runs calls moved with each group whose start or time of degradation changes. None of the three
// functions may call Runs.
func NewRuns(members func(types.NamespacedName) Members, ready func() bool, moved func(types.NamespacedName)) *Runs {
	return &Runs{
		members: members, ready: ready, moved: moved,
		runs: make(map[types.NamespacedName]*run), touched: sets.New[types.NamespacedName](),
		degraded: sets.New[types.NamespacedName](), lost: sets.New[types.NamespacedName](),
	}
}

// Touch records that members of a group were created, deleted or changed.
func (r *Runs) Touch(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched.Insert(key)
}

// Lost records that a member of a group has lost its place, or is about to.
func (r *Runs) Lost(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched.Insert(key)
	r.lost.Insert(key)
	r.mayLack.Store(true)
}

// Settle updates the runs of the groups that have been touched. It returns a mark of the current
// state for HasBegun.
func (r *Runs) Settle(groups Source, now time.Time) (mark uint64) {
	r.lookAll(r.touched, groups, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// SettleLost updates the runs of the groups that lost members since the last look. Updating a group
// for each new member would dominate the time of scheduling.
func (r *Runs) SettleLost(groups Source, now time.Time) { r.lookAll(r.lost, groups, now) }

func (r *Runs) lookAll(keys sets.Set[types.NamespacedName], groups Source, now time.Time) {
	for _, key := range r.list(keys) {
		if g, ok := groups.Group(key); ok {
			r.Look(g, now)
		} else {
			r.Forget(key)
		}
	}
}

// list returns the elements of one of the sets.
func (r *Runs) list(keys sets.Set[types.NamespacedName]) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return keys.UnsortedList()
}

// IsWhole reports whether a group was whole at the last look.
func (r *Runs) IsWhole(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.runs[key]
	return known != nil && !known.Start.IsZero()
}

// Look updates the run of a group from its members, and returns the run.
func (r *Runs) Look(g *Group, now time.Time) Run {
	out, before := r.look(g, now)
	if !out.Start.Equal(before.Start) || !out.DegradedSince.Equal(before.DegradedSince) {
		r.moved(g.Key)
	}
	return out
}

// setDegraded updates the sets of degraded groups after a look. The caller holds the lock.
func (r *Runs) setDegraded(key types.NamespacedName, degraded bool) {
	r.lost.Delete(key)
	if degraded {
		r.degraded.Insert(key)
	} else {
		r.degraded.Delete(key)
	}
	r.mayLack.Store(r.degraded.Len()+r.lost.Len() > 0)
}

// MayLack reports whether some group lacks members, or lost some since the last look. It takes no
// lock.
func (r *Runs) MayLack() bool { return r.mayLack.Load() }

// Degraded returns the groups that lacked members at the last look.
func (r *Runs) Degraded() []types.NamespacedName { return r.list(r.degraded) }

// DegradedSince returns the time since when a group has lacked members, as of the last look. The
// time is zero if it lacks none.
func (r *Runs) DegradedSince(key types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.runs[key]; known != nil {
		return known.DegradedSince
	}
	return time.Time{}
}

// HasBegun reports whether a run of a group has begun, or begun again, since a mark. If so, a
// decision from before the mark used another start. HasBegun looks at the members only if the group
// has been touched.
func (r *Runs) HasBegun(g *Group, mark uint64, now time.Time) bool {
	if !r.isLevel(g) {
		r.Look(g, now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.runs[g.Key]
	return known != nil && !known.Start.IsZero() && known.began > mark
}

// isLevel reports whether the run of a group is known and up to date.
func (r *Runs) isLevel(g *Group) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.runs[g.Key]
	return known != nil && known.group == g.UID && !r.touched.Has(g.Key)
}

// Forget drops a group without members.
func (r *Runs) Forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, key)
	r.touched.Delete(key)
	r.setDegraded(key, false)
}

// look updates the run of a group, and returns it with the run before.
func (r *Runs) look(g *Group, now time.Time) (out, before Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready() {
		out = Run{Start: g.StartTime, DegradedSince: g.DegradedSince}
		return out, out
	}
	r.touched.Delete(g.Key)
	m := r.members(g.Key)
	if m.Total() == 0 {
		delete(r.runs, g.Key)
		r.setDegraded(g.Key, false)
		return Run{}, Run{}
	}
	known := r.runs[g.Key]
	isNew := known == nil || known.group != g.UID
	if isNew {
		known = &run{Run: Run{Start: g.StartTime, DegradedSince: g.DegradedSince}, group: g.UID, places: placesOf(g)}
		r.runs[g.Key] = known
	}
	if before = known.Run; isNew && before.Start.IsZero() {
		known.Start = seenWhole(g, &m)
	}
	if !known.Start.IsZero() && g.StartTime.After(known.Start) {
		// Another process, which leads, has set a later start.
		known.Start = g.StartTime
	}
	known.followPlaces(g, &m, now)
	r.setDegraded(g.Key, !known.DegradedSince.IsZero())
	if known.follow(g, &m, now); !known.Start.Equal(before.Start) {
		if r.changes++; !isNew {
			known.began = r.changes
		}
	}
	if !known.Start.IsZero() && !known.ShortSince.IsZero() {
		// The run ends after ShortTime even if there is no further event.
		r.touched.Insert(g.Key)
	}
	return known.Run, before
}

// isShort reports whether a run has lacked members for so long that it is over.
func (r *run) isShort(now time.Time) bool {
	return !r.Start.IsZero() && !r.ShortSince.IsZero() && now.Sub(r.ShortSince) >= ShortTime
}

// follow updates the start of a run from the current members.
func (r *run) follow(g *Group, m *Members, now time.Time) {
	ran, running := ranOf(m)
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
	for _, pod := range ran {
		if r.whole.Has(pod.UID) {
			left++
		}
	}
	switch {
	case r.Start.IsZero():
	case !r.ShortSince.IsZero() && len(r.whole) > 0 && left < g.MinCount:
		// The group was short of members, and too few of the earlier ones are left.
		r.Start = time.Time{}
	case left < max(g.MinCount, 1):
		r.Start = wholeSince(r.Start, ran, g.MinCount)
	}
	if !m.GoesBackTo(r.Start) {
		r.Start = time.Time{}
	}
	if r.Start.IsZero() {
		if running < g.MinCount {
			return
		}
		r.Start = begin(m, now)
	}
	if r.ShortSince = (time.Time{}); left != len(ran) || left != len(r.whole) {
		r.whole = uidsOf(ran)
	}
}

func uidsOf(pods []*corev1.Pod) sets.Set[types.UID] {
	out := make(sets.Set[types.UID], len(pods))
	for _, pod := range pods {
		out.Insert(pod.UID)
	}
	return out
}

// ranOf returns the members that run or have succeeded, and how many run.
func ranOf(m *Members) (ran []*corev1.Pod, running int) {
	ran = slices.Clone(m.Succeeded)
	for _, pod := range m.Assigned {
		if pod.Status.Phase == corev1.PodRunning {
			ran = append(ran, pod)
			running++
		}
	}
	return ran, running
}

// wholeSince corrects a start that may be too early. An earlier process may have stored it, or
// several changes may have occurred between two looks, and the group may have been short of members
// meanwhile. It returns the time when the last of minCount members was scheduled, if that is later
// than before.
func wholeSince(before time.Time, ran []*corev1.Pod, minCount int) time.Time {
	times := make([]time.Time, len(ran))
	for i, pod := range ran {
		times[i] = preemptiontoleration.ScheduledAt(pod)
	}
	slices.SortFunc(times, time.Time.Compare)
	if at := times[max(minCount, 1)-1]; at.After(before) {
		return at
	}
	return before
}

// seenWhole returns the start of a group that is whole at the first look and has no start in its
// status. An earlier process may not have written the start, and groups of other APIs have none. It
// returns zero if the group is not whole.
func seenWhole(g *Group, m *Members) time.Time {
	ran, running := ranOf(m)
	if running < max(g.MinCount, 1) {
		return time.Time{}
	}
	return wholeSince(time.Time{}, ran, g.MinCount)
}

// begin returns the start of a run that is first seen to be whole now. By the API server's clock,
// all members on nodes may be newer than now. The start is then the creation of the oldest one.
func begin(m *Members, now time.Time) time.Time {
	first := slices.MinFunc(m.Assigned, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	if at := first.CreationTimestamp.Time; at.After(now) {
		return at
	}
	return now.Truncate(time.Second)
}
