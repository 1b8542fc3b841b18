package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// places records how far the members of a gang have had nodes.
type places struct {
	// complete is true once minCount members had a node at the same time, and for as long as at
	// least one of them has.
	complete bool
	// minCount is the minCount that succeeded belongs to, and succeeded are the members that have
	// succeeded while it held. They count after their pods have been deleted too: their work is not
	// lost.
	minCount  int
	succeeded sets.Set[types.UID]
}

// placesOf returns the places of a group at the first look, according to its status: an earlier
// process may have seen more.
func placesOf(g *Group) places {
	return places{complete: g.Scheduled || !g.DegradedSince.IsZero(), minCount: g.MinCount}
}

// followPlaces updates since when a gang is degraded. A gang is degraded if some members have a
// node, fewer than minCount have one or have succeeded, and there were enough before. A gang is not
// degraded during its first placement, nor without any member on a node. Replacing a member does
// not restart the clock while others are missing.
func (r *run) followPlaces(g *Group, m *Members, now time.Time) {
	if !g.IsGang() || g.Ambiguous || len(m.Assigned) == 0 {
		r.places, r.DegradedSince = places{minCount: g.MinCount}, time.Time{}
		return
	}
	if r.minCount != g.MinCount {
		// A gang that lacked no member is not degraded because its minCount rises. The new number
		// counts the remaining work.
		r.complete = r.complete && (g.MinCount < r.minCount || !r.DegradedSince.IsZero())
		r.minCount, r.succeeded = g.MinCount, nil
	}
	for _, pod := range m.Succeeded {
		r.succeeded = insert(r.succeeded, pod)
	}
	switch {
	case len(m.Assigned)+r.succeeded.Len() >= g.MinCount:
		r.complete, r.DegradedSince = true, time.Time{}
	case r.complete && r.DegradedSince.IsZero():
		r.DegradedSince = now
	}
}

func insert(set sets.Set[types.UID], pod *corev1.Pod) sets.Set[types.UID] {
	if set == nil {
		set = sets.New[types.UID]()
	}
	return set.Insert(pod.UID)
}
