package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Derived finds the groups of pods that do not name a group, from the objects that own the pods.
type Derived interface {
	gang.Derived
	gang.Bounds
	// Hold returns the reason why a pod must wait until more is known about its owner; the zero
	// Verdict for other pods.
	Hold(pod *corev1.Pod) gang.Verdict
	// MinCount returns the number of members that a derived group must need; false for other
	// groups.
	MinCount(key types.NamespacedName) (int, bool)
	// RoleOf returns the role of a member in its derived group, and the number of members of that
	// role that the group needs. The number is 0 for pods of other groups.
	RoleOf(pod *corev1.Pod) (role string, needed int)
	// Leads returns the number of workers that a driver needs, from the object that owns the
	// driver; false if the object does not tell.
	Leads(pod *corev1.Pod) (gang.Lead, bool)
	// QueueOf returns the queue that a pod names in the labels or annotations of another scheduler,
	// if its profile reads these; "" for none.
	QueueOf(pod *corev1.Pod) string
}

// underived is the Derived that derives no groups.
type underived struct{ gang.Named }

// AnchorsOf is part of gang.Derived.
func (underived) AnchorsOf(*corev1.Pod) []string { return nil }

// Anchors is part of gang.Derived.
func (underived) Anchors(types.NamespacedName) []string { return nil }

// Hold is part of Derived.
func (underived) Hold(*corev1.Pod) gang.Verdict { return gang.Verdict{} }

// MinCount is part of Derived.
func (underived) MinCount(types.NamespacedName) (int, bool) { return 0, false }

// RoleOf is part of Derived.
func (underived) RoleOf(*corev1.Pod) (string, int) { return "", 0 }

// MayLead is part of gang.Derived.
func (underived) MayLead(*corev1.Pod) bool { return false }

// Leads is part of Derived.
func (underived) Leads(*corev1.Pod) (gang.Lead, bool) { return gang.Lead{}, false }

// IsBounded is part of gang.Bounds.
func (underived) IsBounded(types.NamespacedName) bool { return false }

// QueueOf is part of Derived.
func (underived) QueueOf(*corev1.Pod) string { return "" }

// Anchored returns the pods whose group derives from an object, the anchor. It includes finished
// pods.
func (r *clusterIndex) Anchored(anchor string) []*corev1.Pod { return r.lister.Anchored(anchor) }

// MembershipChanged handles a pod whose group has changed because more is known about the object
// that owns the pod. It retries a pod that waited for this. listed may be an outdated version of
// the pod: the pod may have changed or been deleted, and the informer's handler may have run
// before.
func (h *Scheduler) MembershipChanged(listed *corev1.Pod, before types.NamespacedName, was bool) {
	pod, exists := h.podOf(podKey(listed))
	if !exists {
		pod = listed
	}
	now, is := h.groupOf(pod)
	if was != is || before != now {
		h.regrouped(pod, before, was)
		if is {
			h.cluster.GroupChanged(now)
		}
		switch {
		case pod.Spec.NodeName != "":
			h.cluster.NodeChanged(pod.Spec.NodeName)
		case h.records.IsAssumed(string(pod.UID)):
			// Only the scheduler's own cache has the node of the pod.
			h.cluster.Invalidate()
		}
	}
	for exists {
		h.podChanged(pod, pod.Spec.NodeName == "")
		var after *corev1.Pod
		if after, exists = h.podOf(podKey(pod)); after == pod {
			break
		} else if exists {
			pod = after
		}
	}
	switch {
	case !exists:
		h.podDeleted(pod)
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
		h.activate(pod)
	}
}

// regrouped cleans up after a pod that has left a group, or was scheduled by itself before.
func (h *Scheduler) regrouped(pod *corev1.Pod, before types.NamespacedName, was bool) {
	h.arrives(pod)
	h.step(engine.PodRejoins{Pod: string(pod.UID), Key: podKey(pod)})
	h.endWait(podKey(pod), decisionlog.Gone)
	if was {
		h.memberLeft(before, pod)
	}
}

// behind returns the reason why a derived or bounded gang is blocked before any member has a node.
// For example, its PodGroup does not count all members yet, or has a higher priority than one of
// its pods. After some members have nodes, only pods with too low a priority are blocked, each by
// itself.
func (o *placements) behind(g *gang.Group, members *gang.Members) gang.Verdict {
	want, derived := o.derived.MinCount(g.Key)
	if !derived && !g.Bounded || !g.IsGang() || o.through(members) > 0 {
		return gang.Verdict{}
	}
	for _, pod := range slices.Concat(members.Pending, members.Gated) {
		if v := gang.Outranked(o.derived, o.groups, pod); v != (gang.Verdict{}) {
			return v
		}
	}
	if !derived || g.MinCount >= want {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason:  v1alpha1.ReasonBehindItsObject,
		Message: fmt.Sprintf("PodGroup %s needs %d members, and is to need %d before it is placed", g.Key, g.MinCount, want),
	}
}

// seatsOfRoles groups the waiting members of a gang by role.
type seatsOfRoles struct {
	// surplus has the waiting members whose role has enough other members for the gang.
	surplus map[types.UID]bool
	// needed is the number of waiting members that the gang needs. counting is the number of placed
	// members that count for the need of their role.
	needed, counting int
	// several is true if the members have more than one role.
	several bool
}

// byRole separates the waiting members that a gang needs from its surplus. Placed members count
// first. Of each role, the gang needs waiting members until the need of the role is met.
func (r *clusterIndex) byRole(waiting []*corev1.Pod, placed ...[]*corev1.Pod) seatsOfRoles {
	have := make(map[string]int)
	out := seatsOfRoles{surplus: make(map[types.UID]bool, len(waiting))}
	counts := func(pod *corev1.Pod) bool {
		role, needed := r.derived.RoleOf(pod)
		have[role]++
		return have[role] <= needed
	}
	for _, pod := range slices.Concat(placed...) {
		if counts(pod) {
			out.counting++
		}
	}
	for _, pod := range waiting {
		if counts(pod) {
			out.needed++
		} else {
			out.surplus[pod.UID] = true
		}
	}
	out.several = len(have) > 1
	return out
}

// roleOf returns the role of a gang member, which decides whether the member is surplus. It returns
// nil for pods of other groups, and if minCount is not the sum of the roles' needs. The sum
// differs, for example, if the gang has grown since it began to run.
func (r *clusterIndex) roleOf(g *gang.Group, pod *corev1.Pod) *core.Role {
	if want, derived := r.derived.MinCount(g.Key); !derived || want != g.MinCount {
		return nil
	}
	role, needed := r.derived.RoleOf(pod)
	if needed == 0 {
		return nil
	}
	return &core.Role{Name: role, Needs: int32(needed)}
}

// neededFirst sorts the waiting members of a gang: the members that the gang needs of each role
// come first. The order within both parts stays the same. minCount counts members in this order, so
// a surplus worker never counts in place of a head, even if it is older.
func (s *seatsOfRoles) neededFirst(waiting []*corev1.Pod) {
	turn := func(pod *corev1.Pod) int {
		if s.surplus[pod.UID] {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int { return cmp.Compare(turn(a), turn(b)) })
}

// unplaced returns the pending members that are not assumed on a node.
func unplaced(members *gang.Members) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool { return members.Reserved.Has(pod.UID) })
}

// lacking returns the number of waiting members that must be placed to make a gang whole: minCount
// minus the members that have passed their cycles. The number is higher if the placed members are
// surplus in their role, for example if the gang lost its head and has too many workers. lacking
// sorts waiting, because members count in this order.
func (o *placements) lacking(g *gang.Group, members *gang.Members, waiting []*corev1.Pod) int {
	if g.Tree != nil {
		return lackingInTree(g, members, waiting)
	}
	lacking := max(g.MinCount-o.through(members), 0)
	want, derived := o.derived.MinCount(g.Key)
	if !derived {
		return lacking
	}
	assumed := slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool { return !members.Reserved.Has(pod.UID) })
	roles := o.byRole(waiting, members.Assigned, members.Succeeded, assumed)
	roles.neededFirst(waiting)
	// A gang that has grown while it runs may have new roles. Members past minCount preempt
	// nothing.
	if roles.several && want == g.MinCount {
		lacking = max(lacking, min(roles.needed, g.MinCount-roles.counting))
	}
	return lacking
}
