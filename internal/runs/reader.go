package runs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// Reader keeps the records of runs in an [engine.Gangs] up to date with the members of groups. A
// run starts when minCount members of a group run together. Protections such as min-runtime count
// from the start. A later process of the scheduler reads the start from the PodGroup's status. A
// Reader has no state and is safe for concurrent use.
type Reader struct {
	records *engine.Gangs
	members func(types.NamespacedName) gang.Members
	roles   gang.Roles
	ready   func() bool
	moved   func(types.NamespacedName)
}

// NewReader returns a Reader. members lists the members of a group; the lists are complete once
// ready returns true. Until then, the Reader returns the times in the PodGroups' statuses. roles
// finds the roles of members.
//
// The Reader calls moved for each group whose start or DegradedSince changes.
func NewReader(records *engine.Gangs, members func(types.NamespacedName) gang.Members, roles gang.Roles, ready func() bool, moved func(types.NamespacedName)) *Reader {
	return &Reader{records: records, members: members, roles: roles, ready: ready, moved: moved}
}

// PartsOf returns the parts of a group, according to its members.
func (r *Reader) PartsOf(g *gang.Group, m *gang.Members) *gang.Parts {
	return gang.PartsOf(g, r.roles, m)
}

// IsPlaced reports whether enough members of a group have a node or have succeeded, in total and in
// each part.
func (r *Reader) IsPlaced(g *gang.Group, m *gang.Members) bool {
	return gang.IsPlaced(g, r.roles, m)
}

// Shortage describes the parts of a gang that need more members; "" for none.
func (r *Reader) Shortage(g *gang.Group, m *gang.Members) string {
	parts := r.PartsOf(g, m)
	return parts.Shortage(parts.Count(m.Assigned, m.Succeeded))
}

// Settle updates the runs of all groups whose members have changed. It returns a mark of the
// current state, which the caller can pass to [Reader.HasBegun] later.
func (r *Reader) Settle(groups gang.Source, now time.Time) (mark uint64) {
	r.lookAll(r.records.Touched(), groups, now)
	return r.records.Mark()
}

// SettleLost updates only the runs of groups that have lost members since their last update. It
// does not update the runs for added members, because these updates would take most of the
// scheduler's time.
func (r *Reader) SettleLost(groups gang.Source, now time.Time) {
	r.lookAll(r.records.WithLost(), groups, now)
}

func (r *Reader) lookAll(keys []workload.Key, groups gang.Source, now time.Time) {
	for _, key := range keys {
		if g, ok := groups.Group(gang.NameOf(key)); ok {
			r.Look(g, now)
		} else {
			r.records.ForgetRun(key)
		}
	}
}

// Look updates the run of a group from its members and returns the run.
func (r *Reader) Look(g *gang.Group, now time.Time) engine.Run {
	if !r.ready() {
		return engine.Run{Start: g.StartTime, Clock: g.StartTime, DegradedSince: g.DegradedSince}
	}
	key := gang.KeyOf(g.Key)
	look := r.records.BeginLook(key)
	members := r.members(g.Key)
	parts := r.PartsOf(g, &members)
	run, moved := r.records.EndLook(key, look, recordOf(g, parts), placedOf(&members, parts), members.Total(), now)
	if moved {
		r.moved(g.Key)
	}
	return run
}

func recordOf(g *gang.Group, parts *gang.Parts) *engine.Group {
	out := &engine.Group{
		UID: string(g.UID), MinCount: g.MinCount, Start: g.StartTime, DegradedSince: g.DegradedSince, Scheduled: g.Scheduled,
		UnscheduledSince: g.UnscheduledSince, Ambiguous: g.Ambiguous,
	}
	if parts != nil {
		out.Parts = &engine.Parts{Needs: parts.Needs, IsWhole: parts.IsWhole, Extra: parts.Extra}
	}
	return out
}

func placedOf(m *gang.Members, parts *gang.Parts) []engine.Member {
	out := make([]engine.Member, 0, m.Placed())
	var seals terms
	for _, pod := range m.Assigned {
		member := memberOf(pod, parts)
		member.Terms = seals.read(pod)
		member.Running = pod.Status.Phase == corev1.PodRunning
		out = append(out, member)
	}
	for _, pod := range m.Succeeded {
		member := memberOf(pod, parts)
		member.Succeeded = true
		out = append(out, member)
	}
	return out
}

func memberOf(pod *corev1.Pod, parts *gang.Parts) engine.Member {
	return engine.Member{UID: string(pod.UID), Part: parts.Of(pod), Created: pod.CreationTimestamp.Time, Scheduled: preemptiontoleration.ScheduledAt(pod)}
}

// HasBegun reports whether the group has started a run since a mark from [Reader.Settle]. If so, a
// decision that was made at the mark assumed an older run or no run. HasBegun reads the members
// only if they have changed.
func (r *Reader) HasBegun(g *gang.Group, mark uint64, now time.Time) bool {
	r.Current(g, now)
	return r.records.HasBegun(gang.KeyOf(g.Key), mark)
}

// Current returns the run of a group. It reads the members only if they have changed.
func (r *Reader) Current(g *gang.Group, now time.Time) engine.Run {
	if r.ready() {
		if run, ok := r.records.Current(gang.KeyOf(g.Key), string(g.UID)); ok {
			return run
		}
	}
	return r.Look(g, now)
}
