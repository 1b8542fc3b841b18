package scheduler

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// entersQueue reports whether a pod can enter the scheduler's queue if ReprieveGate admits it: no
// other plugin gates the pod, and its group does not outrank it. Only such a pod can plan for its
// gang.
func (r *clusterIndex) entersQueue(pod *corev1.Pod) bool { return r.gatedBy(pod) == "" }

// gatedBy returns the reason why a pod cannot enter the scheduler's queue, even if ReprieveGate
// admits it. The reason is the name and message of another PreEnqueue plugin, or a message that the
// group of the pod outranks it. It returns "" if the pod can enter the queue.
func (r *clusterIndex) gatedBy(pod *corev1.Pod) string {
	for _, pl := range r.profiles.PreEnqueue(pod.Spec.SchedulerName) {
		if pl.Name() == GateName {
			continue
		}
		if status := pl.PreEnqueue(context.Background(), pod); !status.IsSuccess() {
			return fmt.Sprintf("plugin %s holds it back: %s", pl.Name(), status.Message())
		}
	}
	return gang.Outranked(r.derived, r.groups, pod).Message
}

// canLead returns a function that reports whether a member can enter the scheduler's queue. Only
// such a member can plan for its gang.
func (r *clusterIndex) canLead(members *gang.Members) func(engine.UID) bool {
	return func(uid engine.UID) bool {
		for _, pod := range members.Pending {
			if string(pod.UID) == uid {
				return r.entersQueue(pod)
			}
		}
		return false
	}
}

// gangGatedBy returns the reason why other plugins gate all pending members of a gang. It returns
// "" if the gang has no pending member, or if any pending member can enter the queue. Any goroutine
// may call it.
func (r *clusterIndex) gangGatedBy(members *gang.Members) string {
	var first keptOutMember
	for _, pod := range members.Pending {
		why := r.gatedBy(pod)
		if why == "" {
			return ""
		}
		first.see(pod.Name, why)
	}
	return first.String()
}

// keptOutMember is the first gated member of a gang, by name, with the reason. Messages name the
// first member so that they stay the same while the set of gated members is the same.
type keptOutMember struct{ name, why string }

func (m *keptOutMember) see(name, why string) {
	if m.name == "" || name < m.name {
		m.name, m.why = name, why
	}
}

// String describes the gated member; "" if there is none.
func (m *keptOutMember) String() string {
	if m.name == "" {
		return ""
	}
	return "member " + m.name + ": " + m.why
}

// lacks returns a group, and the reason why its members are blocked regardless of their queue. The
// group is nil if it does not exist.
func (o *placements) lacks(key types.NamespacedName, members *gang.Members) (*gang.Group, gang.Verdict) {
	g, ok := o.index.groups.Group(key)
	if !ok {
		g = nil
	}
	verdict := gang.Gate(key, g, members)
	if g == nil {
		verdict = cmp.Or(o.gangs.Unresolved(gangKey(key)), verdict)
	}
	if verdict == (gang.Verdict{}) && g != nil {
		verdict = o.behind(g, members)
	}
	return g, verdict
}

// blockedBy returns the cause that blocks a workload from using its reservations; "" for none. It
// returns "" for a gang with planned members. Most causes begin without an event, so the main loop
// and the evictions call blockedBy at intervals.
func (o *placements) blockedBy(key workload.Key) string {
	if !key.Gang {
		pod, ok := o.index.podOf(key)
		switch {
		case !ok:
			return ""
		case o.isBlockedByGroup(pod):
			return "its group cannot be tried any more"
		}
		return o.index.gatedBy(pod)
	}
	members := o.membersAsReserved(nameOf(key))
	_, verdict := o.lacks(nameOf(key), &members)
	return o.gangBlockedBy(key, &members, verdict)
}

// gangBlockedBy is blockedBy for a gang. members are the gang's members, and lacks is the verdict
// that the method lacks returned for them.
func (o *placements) gangBlockedBy(key workload.Key, members *gang.Members, lacks gang.Verdict) (why string) {
	switch {
	case o.gangs.Planned(key) > 0:
		return ""
	case lacks != (gang.Verdict{}):
		return lacks.Message
	}
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) {
			continue
		}
		if why = o.index.gatedBy(pod); why == "" {
			return ""
		}
	}
	return why
}

// isBlockedByGroup reports whether the group or the owner of a pod blocks the pod. It does not
// check queues or other plugins.
func (o *placements) isBlockedByGroup(pod *corev1.Pod) bool {
	if o.index.derived.Hold(pod) != (gang.Verdict{}) || gang.Contradiction(pod) != (gang.Verdict{}) {
		return true
	}
	key, ok := o.index.groupOf(pod)
	if !ok {
		return false
	}
	if g, ok := o.index.groups.Group(key); ok && !g.IsGang() {
		// For a basic group, the verdict does not depend on the members. Listing many members would
		// take long.
		return gang.Gate(key, g, nil) != gang.Verdict{}
	}
	members := o.members(key)
	_, verdict := o.lacks(key, &members)
	return verdict != gang.Verdict{}
}

// needs reports whether a preemptor may be scheduled, and is the same workload as in the decision.
func (o *placements) needs(key workload.Key, d *core.Decision) bool {
	if !key.Gang {
		return o.blockedBy(key) == ""
	}
	members := o.membersAsReserved(nameOf(key))
	g, verdict := o.lacks(nameOf(key), &members)
	return o.gangBlockedBy(key, &members, verdict) == "" && o.isAsDecidedFor(d, g, &members)
}

// isAsDecidedFor reports whether a decision still matches a gang. The gang must be the same object,
// and not a later gang of the same name. It must also lack at least as many members as the decision
// assumed: if minCount was lowered since, fewer pods may be evicted.
func (o *placements) isAsDecidedFor(d *core.Decision, g *gang.Group, members *gang.Members) bool {
	if g == nil || string(g.UID) != d.Preemptor.UID {
		return false
	}
	return o.lacking(g, members, members.Unplaced()) >= d.Preemptor.MinCount
}
