package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Assumed returns the pending members that are assumed on a node and stay there. A member that was
// rejected at Permit stays assumed until the framework has processed the rejection.
func (o *Placements) Assumed(members *gang.Members) []*corev1.Pod {
	if members.Reserved.Len() == 0 {
		return nil
	}
	o.Rejecting.Lock()
	defer o.Rejecting.Unlock()
	var out []*corev1.Pod
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) && !o.leaving.Takes(pod.UID) && !o.records.IsRejected(string(pod.UID)) {
			out = append(out, pod)
		}
	}
	return out
}

// Missing returns the number of members that a gang needs beside the members that have passed
// their cycles; see Through. Surplus members of one part do not replace members of another part.
func (o *Placements) Missing(g *gang.Group, members *gang.Members) int {
	parts := gang.PartsOf(g, o.index.Derived, members)
	return parts.Lacks(g.MinCount, parts.Count(members.Assigned, members.Succeeded, o.Assumed(members)))
}

// missingAtBest returns the result that Missing will have once every pending member is placed.
func (o *Placements) missingAtBest(g *gang.Group, members *gang.Members) int {
	parts := gang.PartsOf(g, o.index.Derived, members)
	return parts.Lacks(g.MinCount, parts.Count(members.Assigned, members.Succeeded, members.Pending))
}

// MissingExtra returns the parts of a whole tree that have lost members, although the tree does not
// need these parts. The values are the numbers of members that they need to be useful again.
func (o *Placements) MissingExtra(g *gang.Group, members *gang.Members) map[string]int {
	if g.Tree == nil {
		return nil
	}
	parts := gang.PartsOf(g, o.index.Derived, members)
	return parts.Extra(parts.Count(members.Assigned, members.Succeeded, o.Assumed(members)))
}
