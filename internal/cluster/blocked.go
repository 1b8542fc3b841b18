package cluster

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// EntersQueue reports whether a pod can enter the scheduler's queue if ReprieveGate admits it. No
// other plugin gates such a pod, and its group does not outrank it. Only such a pod can plan for
// its gang.
func (r *Index) EntersQueue(pod *corev1.Pod) bool { return r.GatedBy(pod) == "" }

// GatedBy returns the reason why a pod cannot enter the scheduler's queue, even if ReprieveGate
// admits it. The reason is the name and message of another PreEnqueue plugin, or a message that the
// group of the pod outranks it. It returns "" if the pod can enter the queue.
func (r *Index) GatedBy(pod *corev1.Pod) string {
	for _, pl := range r.Profiles.PreEnqueue(pod.Spec.SchedulerName) {
		if pl.Name() == r.sources.Gate {
			continue
		}
		if status := pl.PreEnqueue(context.Background(), pod); !status.IsSuccess() {
			return fmt.Sprintf("plugin %s holds it back: %s", pl.Name(), status.Message())
		}
	}
	return gang.Outranked(r.Derived, r.Groups, pod).Message
}

// CanLead returns a function that reports whether a member can enter the scheduler's queue. Only
// such a member can plan for its gang.
func (r *Index) CanLead(members *gang.Members) func(engine.UID) bool {
	return func(uid engine.UID) bool {
		for _, pod := range members.Pending {
			if string(pod.UID) == uid {
				return r.EntersQueue(pod)
			}
		}
		return false
	}
}

// GangGatedBy returns the reason why other plugins gate all pending members of a gang. It returns
// "" if the gang has no pending member, or if any pending member can enter the queue. Any goroutine
// may call it.
func (r *Index) GangGatedBy(members *gang.Members) string {
	var first GatedMember
	for _, pod := range members.Pending {
		why := r.GatedBy(pod)
		if why == "" {
			return ""
		}
		first.See(pod.Name, why)
	}
	return first.String()
}

// GatedMember is the first gated member of a gang, by name, with the reason. Messages name the
// first member so that they stay the same while the set of gated members is the same.
type GatedMember struct{ name, why string }

// See records a gated member. The first member by name stays recorded.
func (m *GatedMember) See(name, why string) {
	if m.name == "" || name < m.name {
		m.name, m.why = name, why
	}
}

// String describes the gated member; "" if there is none.
func (m *GatedMember) String() string {
	if m.name == "" {
		return ""
	}
	return "member " + m.name + ": " + m.why
}

// Lacks returns a group, and the reason why its members are blocked regardless of their queue. The
// group is nil if it does not exist.
func (o *Placements) Lacks(key types.NamespacedName, members *gang.Members) (*gang.Group, gang.Verdict) {
	g, ok := o.index.Groups.Group(key)
	if !ok {
		g = nil
	}
	verdict := gang.Gate(key, g, members)
	if g == nil {
		verdict = cmp.Or(o.gangs.Unresolved(gang.KeyOf(key)), verdict)
	}
	if verdict == (gang.Verdict{}) && g != nil {
		verdict = o.behind(g, members)
	}
	return g, verdict
}

// BlockedBy returns the cause that blocks a workload from using its reservations; "" for none. It
// returns "" for a gang with planned members. Most causes begin without an event, so the main loop
// and the evictions call blockedBy at intervals.
func (o *Placements) BlockedBy(key workload.Key) string {
	if !key.Gang {
		pod, ok := o.index.PodOf(key)
		switch {
		case !ok:
			return ""
		case o.IsBlockedByGroup(pod):
			return "its group cannot be tried any more"
		}
		return o.index.GatedBy(pod)
	}
	members := o.MembersAsReserved(gang.NameOf(key))
	_, verdict := o.Lacks(gang.NameOf(key), &members)
	return o.gangBlockedBy(key, &members, verdict)
}

// gangBlockedBy is BlockedBy for a gang. members are the gang's members, and lacks is the verdict
// that the method Lacks returned for them.
func (o *Placements) gangBlockedBy(key workload.Key, members *gang.Members, lacks gang.Verdict) (why string) {
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
		if why = o.index.GatedBy(pod); why == "" {
			return ""
		}
	}
	return why
}

// IsBlockedByGroup reports whether the group or the owner of a pod blocks the pod. It does not
// check queues or other plugins.
func (o *Placements) IsBlockedByGroup(pod *corev1.Pod) bool {
	if o.index.Derived.Hold(pod) != (gang.Verdict{}) || gang.Contradiction(pod) != (gang.Verdict{}) {
		return true
	}
	key, ok := o.index.GroupOf(pod)
	if !ok {
		return false
	}
	if g, ok := o.index.Groups.Group(key); ok && !g.IsGang() {
		// For a basic group, the verdict does not depend on the members. Listing many members would
		// take long.
		return gang.Gate(key, g, nil) != gang.Verdict{}
	}
	members := o.Members(key)
	_, verdict := o.Lacks(key, &members)
	return verdict != gang.Verdict{}
}

// Needs reports whether a preemptor may be scheduled, and is the same workload as in the decision.
func (o *Placements) Needs(key workload.Key, d *core.Decision) bool {
	if !key.Gang {
		return o.BlockedBy(key) == ""
	}
	members := o.MembersAsReserved(gang.NameOf(key))
	g, verdict := o.Lacks(gang.NameOf(key), &members)
	return o.gangBlockedBy(key, &members, verdict) == "" && o.isAsDecidedFor(d, g, &members)
}

// isAsDecidedFor reports whether a decision still matches a gang. The gang must be the same object,
// and not a later gang of the same name. It must also lack at least as many members as the decision
// assumed: if minCount was lowered since, fewer pods may be evicted.
func (o *Placements) isAsDecidedFor(d *core.Decision, g *gang.Group, members *gang.Members) bool {
	if g == nil || string(g.UID) != d.Preemptor.UID {
		return false
	}
	return o.Lacking(g, members, members.Unplaced()) >= d.Preemptor.MinCount
}

// IsGateReason reports whether the gate blocks members for a reason, before any planning.
func IsGateReason(reason string) bool {
	switch reason {
	case gang.ReasonPodGroupNotFound, gang.ReasonPodGroupNotMade, v1alpha1.ReasonBehindItsObject, v1alpha1.ReasonPriorityAbovePods, v1alpha1.ReasonNotEnoughMembers, v1alpha1.ReasonMixedSchedulerNames,
		v1alpha1.ReasonPriorityClassNotFound, v1alpha1.ReasonTemplateNotFound, v1alpha1.ReasonAmbiguousName,
		v1alpha1.ReasonParentNotFound, v1alpha1.ReasonParentCycle, v1alpha1.ReasonTreeTooDeep, v1alpha1.ReasonPriorityDiffers,
		v1alpha1.ReasonQueueDiffers, v1alpha1.ReasonNotEnoughGroups,
		v1alpha1.ReasonUnsupported, v1alpha1.ReasonQueueNotFound, v1alpha1.ReasonQueueNotLeaf, v1alpha1.ReasonQueueUnusable,
		v1alpha1.ReasonQueueNotAllowed, v1alpha1.ReasonPriorityAboveQueue, v1alpha1.ReasonQueueRequired,
		v1alpha1.ReasonDriversWithoutWorkers:
		return true
	default:
		return false
	}
}
