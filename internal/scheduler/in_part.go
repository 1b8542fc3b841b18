package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// isInPart reports whether a gang would run in part if its assumed members were bound. The planned
// members count as placed. The minCount of a tree is the smallest number of members that can make
// the tree whole. So it says nothing about other PodGroups of the tree: see partial.
func (o *placements) isInPart(g *gang.Group, members *gang.Members, planned []engine.UID) bool {
	if g.Tree == nil {
		return o.through(members)+len(planned) < g.MinCount
	}
	return len(o.partial(g, members, planned)) > 0
}

// mayBecomeWhole reports whether a gang is whole once all members have passed that have passed or
// may still pass their cycles; see atMost.
func (o *placements) mayBecomeWhole(g *gang.Group, members *gang.Members) bool {
	if g.Tree == nil {
		return o.atMost(g.Key, members) >= g.MinCount
	}
	coming := o.coming(members, o.gangs.PlannedMembers(gangKey(g.Key)))
	return len(inPart(g.Tree, members, coming, coming)) == 0
}

// partial returns the PodGroups of a tree that would run in part, by name. Each has members that
// are assumed or planned, and it or a group above it is not whole with them. A member that is
// deleted in its cycle does not count in place of later members.
func (o *placements) partial(g *gang.Group, members *gang.Members, planned []engine.UID) sets.Set[string] {
	coming := o.coming(members, planned)
	var counted []*corev1.Pod
	for _, pod := range coming {
		if !o.leaving.takes(pod.UID) {
			counted = append(counted, pod)
		}
	}
	return inPart(g.Tree, members, coming, counted)
}

// inPart returns the PodGroups of the coming pods that are not whole with the counted pods, or are
// below a group that is not.
func inPart(tree *gang.Tree, members *gang.Members, coming, counted []*corev1.Pod) sets.Set[string] {
	placed, out := gang.CountByPart(members.Assigned, members.Succeeded, counted), sets.New[string]()
	for name := range gang.CountByPart(coming) {
		if !tree.IsWholeAround(name, placed) {
			out.Insert(name)
		}
	}
	return out
}

// coming returns the pending members that are planned, or are assumed and were not rejected at
// Permit.
func (o *placements) coming(members *gang.Members, planned []engine.UID) []*corev1.Pod {
	isPlanned := sets.New(planned...)
	var out []*corev1.Pod
	o.rejecting.Lock()
	defer o.rejecting.Unlock()
	for _, pod := range members.Pending {
		uid := string(pod.UID)
		if isPlanned.Has(uid) || members.Reserved.Has(pod.UID) && !o.records.IsRejected(uid) {
			out = append(out, pod)
		}
	}
	return out
}
