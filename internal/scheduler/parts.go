package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// assumed returns the pending members that are assumed on a node and stay there. A member that was
// rejected at Permit stays assumed until the framework has processed the rejection.
func (o *placements) assumed(members *gang.Members) []*corev1.Pod {
	if members.Reserved.Len() == 0 {
		return nil
	}
	o.rejecting.Lock()
	defer o.rejecting.Unlock()
	var out []*corev1.Pod
	for _, pod := range members.Pending {
		if members.Reserved.Has(pod.UID) && !o.leaving.Takes(pod.UID) && !o.records.IsRejected(string(pod.UID)) {
			out = append(out, pod)
		}
	}
	return out
}

// missing returns the number of members that a gang needs beside the members that have passed
// their cycles; see through. Surplus members of one part do not replace members of another part.
func (o *placements) missing(g *gang.Group, members *gang.Members) int {
	parts := gang.PartsOf(g, o.index.derived, members)
	return parts.Lacks(g.MinCount, parts.Count(members.Assigned, members.Succeeded, o.assumed(members)))
}
