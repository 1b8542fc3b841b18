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

// ShortTime is how long a group has fewer members than it needs before that alone ends its run: of one that has succeeded it is heard
// a moment after it runs no more.
const ShortTime = time.Second

// Run is how a group runs.
type Run struct {
	// Start is since when it is whole, in whole seconds as the API has them: from when minCount members ran together, and for as long as
	// they run, or have succeeded. It is zero where it is not whole.
	Start time.Time
	// ShortSince is since when fewer run than are needed; zero while there are enough.
	ShortSince time.Time
	// DegradedSince is since when the group has lacked members that it had; see [run.followPlaces].
	// It is zero for a group that lacks none.
	DegradedSince time.Time
}

// run is a Run with what it goes by.
type run struct {
	Run
	// group tells it from that of another group of the same name.
	group types.UID
	// began counts, among all, the change by which Start has become what it is; zero where it was so at the first look.
	began uint64
	// whole are the members that ran, or had succeeded, when there were enough last; nil where that has not been seen.
	whole sets.Set[types.UID]
	places
}

// Runs has the runs of groups: from when on what protects a group does so. The status of a PodGroup keeps its start for the next
// process. Make one with NewRuns; it is safe for concurrent use.
type Runs struct {
	members func(types.NamespacedName) Members
	ready   func() bool
	moved   func(types.NamespacedName)

	mu   sync.Mutex
	runs map[types.NamespacedName]*run
	// touched are the groups with members that have come, gone or changed since they were looked at, and those that are short of some.
	touched sets.Set[types.NamespacedName]
	// degraded are the groups that lacked members at the last look, and lost the groups with a
	// member that has left since. mayLack is true if either has a group.
	degraded, lost sets.Set[types.NamespacedName]
	mayLack        atomic.Bool
	// changes counts the changes of starts.
	changes uint64
}

// NewRuns returns Runs of groups with the members that a function lists, which lacks none once ready says so: until then, statuses
// have the last word. It calls moved with each group whose start, or time of degradation, is another one than before. None of the
// three must call it back.
func NewRuns(members func(types.NamespacedName) Members, ready func() bool, moved func(types.NamespacedName)) *Runs {
	return &Runs{
		members: members, ready: ready, moved: moved,
		runs: make(map[types.NamespacedName]*run), touched: sets.New[types.NamespacedName](),
		degraded: sets.New[types.NamespacedName](), lost: sets.New[types.NamespacedName](),
	}
}

// Touch says that members of a group have come, gone or changed.
func (r *Runs) Touch(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched.Insert(key)
}

// Lost says that a member of a group has lost its place, or is about to.
func (r *Runs) Lost(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched.Insert(key)
	r.lost.Insert(key)
	r.mayLack.Store(true)
}

// Settle looks at the groups that have been touched, and returns a mark of what is known by then, for HasBegun.
func (r *Runs) Settle(groups Source, now time.Time) (mark uint64) {
	r.lookAll(r.touched, groups, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// SettleLost looks at the groups that members have left since the last look. To look at a group for
// each member that comes would take longer than all else.
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

// list returns the members of one of the sets.
func (r *Runs) list(keys sets.Set[types.NamespacedName]) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return keys.UnsortedList()
}

// IsWhole reports whether a group was whole at the last look at it.
func (r *Runs) IsWhole(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.runs[key]
	return known != nil && !known.Start.IsZero()
}

// Look returns the run of a group after a look at its members.
func (r *Runs) Look(g *Group, now time.Time) Run {
	out, before := r.look(g, now)
	if !out.Start.Equal(before.Start) || !out.DegradedSince.Equal(before.DegradedSince) {
		r.moved(g.Key)
	}
	return out
}

// setDegraded keeps the set of groups that lack members after a look. The caller holds the lock.
func (r *Runs) setDegraded(key types.NamespacedName, degraded bool) {
	r.lost.Delete(key)
	if degraded {
		r.degraded.Insert(key)
	} else {
		r.degraded.Delete(key)
	}
	r.mayLack.Store(r.degraded.Len()+r.lost.Len() > 0)
}

// MayLack reports whether some group lacks members, or has lost some since the last look at it. It
// takes no lock.
func (r *Runs) MayLack() bool { return r.mayLack.Load() }

// Degraded returns the groups that lacked members at the last look.
func (r *Runs) Degraded() []types.NamespacedName { return r.list(r.degraded) }

// DegradedSince returns the time since when a group has lacked members, by the last look at it. The
// time is zero if it lacks none.
func (r *Runs) DegradedSince(key types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.runs[key]; known != nil {
		return known.DegradedSince
	}
	return time.Time{}
}

// HasBegun reports whether a run of a group has begun, or begun anew, since a mark: what was decided by then went by another clock. It
// looks again only at what has been touched.
func (r *Runs) HasBegun(g *Group, mark uint64, now time.Time) bool {
	if !r.isLevel(g) {
		r.Look(g, now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.runs[g.Key]
	return known != nil && !known.Start.IsZero() && known.began > mark
}

// isLevel reports whether nothing is known of a group that has not been looked at.
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

// look returns the run of a group, and its run before.
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
		// By another process, which leads.
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
		// Nothing else may happen by the time at which it is over.
		r.touched.Insert(g.Key)
	}
	return known.Run, before
}

// isShort reports whether a run has lacked members for long enough to be over.
func (r *run) isShort(now time.Time) bool {
	return !r.Start.IsZero() && !r.ShortSince.IsZero() && now.Sub(r.ShortSince) >= ShortTime
}

// follow takes in the members as they are now.
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
		// It was short of members, and is whole by others.
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

// ranOf are the members that run, or have succeeded, and how many run.
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

// wholeSince corrects a time from which on not all is known: an earlier process wrote it, or one change after the other has come about
// between two looks. Meanwhile the group may have been short of members. Where those that were whole then are fewer than minCount by
// now, it is whole since the last of minCount was scheduled.
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

// seenWhole is when a group has begun that is whole at the first look, and of which no status says since when: a status that was not
// written any more, or that another scheduler's group does not have. It is zero where that is not known.
func seenWhole(g *Group, m *Members) time.Time {
	ran, running := ranOf(m)
	if running < max(g.MinCount, 1) {
		return time.Time{}
	}
	return wholeSince(time.Time{}, ran, g.MinCount)
}

// begin is when the run of a group begins that is seen to be whole now. By the clock of the API server, the first of its members may
// have come later than that.
func begin(m *Members, now time.Time) time.Time {
	first := slices.MinFunc(m.Assigned, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	if at := first.CreationTimestamp.Time; at.After(now) {
		return at
	}
	return now.Truncate(time.Second)
}
