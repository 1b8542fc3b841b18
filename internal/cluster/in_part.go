package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// IsInPart reports whether a gang would run in part, with too few members, if its assumed and
// planned members were bound. For a tree, it checks each PodGroup with Partial, because the
// minCount of a tree does not show which PodGroups are whole.
func (o *Placements) IsInPart(g *gang.Group, members *gang.Members, planned []engine.UID) bool {
	if g.Tree == nil {
		return o.Through(members)+len(planned) < g.MinCount
	}
	return len(o.Partial(g, members, planned)) > 0
}

// MayBecomeWhole reports whether a gang will be whole if all members that can still pass their
// cycles do so; see AtMost.
func (o *Placements) MayBecomeWhole(g *gang.Group, members *gang.Members) bool {
	if g.Tree == nil {
		return o.AtMost(g.Key, members) >= g.MinCount
	}
	coming := o.coming(members, o.gangs.PlannedMembers(gang.KeyOf(g.Key)))
	return len(g.Tree.InPart(members, coming, coming)) == 0
}

// Partial returns the names of the PodGroups in a tree that would run in part. Such a PodGroup has
// assumed or planned members, and with them the PodGroup, or a group above it, is not whole. A
// member that is being evicted does not count, because later members must replace it.
func (o *Placements) Partial(g *gang.Group, members *gang.Members, planned []engine.UID) sets.Set[string] {
	coming := o.coming(members, planned)
	var counted []*corev1.Pod
	for _, pod := range coming {
		if !o.leaving.Takes(pod.UID) {
			counted = append(counted, pod)
		}
	}
	return g.Tree.InPart(members, coming, counted)
}

// coming returns the pending members that will be placed. They are planned, or they are assumed and
// Permit has not rejected them.
func (o *Placements) coming(members *gang.Members, planned []engine.UID) []*corev1.Pod {
	isPlanned := sets.New(planned...)
	var out []*corev1.Pod
	o.Rejecting.Lock()
	defer o.Rejecting.Unlock()
	for _, pod := range members.Pending {
		uid := string(pod.UID)
		if isPlanned.Has(uid) || members.Reserved.Has(pod.UID) && !o.records.IsRejected(uid) {
			out = append(out, pod)
		}
	}
	return out
}
