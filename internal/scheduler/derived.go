package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Derived finds the derived groups: the groups of pods that name none. It derives them from the
// objects that own the pods.
type Derived interface {
	gang.Derived
	gang.Bounds
	gang.Roles
	// Hold returns the reason why a pod must wait until its owner is known; the zero Verdict for
	// none.
	Hold(pod *corev1.Pod) gang.Verdict
	// Leads returns the workers that a driver needs, according to the object that owns the driver;
	// false if the object does not say.
	Leads(pod *corev1.Pod) (gang.Lead, bool)
	// QueueOf returns the queue in the labels or annotations that another scheduler defines; "" for
	// none. It reads them only if the pod's profile allows it.
	QueueOf(pod *corev1.Pod) string
}

// underived is a Derived without derived groups.
type underived struct{ gang.Named }

// AnchorsOf is part of gang.Derived.
func (underived) AnchorsOf(*corev1.Pod) []string { return nil }

// Anchors is part of gang.Derived.
func (underived) Anchors(types.NamespacedName) []string { return nil }

// Hold is part of Derived.
func (underived) Hold(*corev1.Pod) gang.Verdict { return gang.Verdict{} }

// MinCount is part of gang.Roles.
func (underived) MinCount(types.NamespacedName) (int, bool) { return 0, false }

// RoleOf is part of gang.Roles.
func (underived) RoleOf(*corev1.Pod) (string, int) { return "", 0 }

// MayLead is part of gang.Derived.
func (underived) MayLead(*corev1.Pod) bool { return false }

// Leads is part of Derived.
func (underived) Leads(*corev1.Pod) (gang.Lead, bool) { return gang.Lead{}, false }

// IsBounded is part of gang.Bounds.
func (underived) IsBounded(types.NamespacedName) bool { return false }

// QueueOf is part of Derived.
func (underived) QueueOf(*corev1.Pod) string { return "" }

// membershipChanged handles a pod whose derived group has changed, because more is known about the
// owner of the pod. It retries the pod if the pod waited for this. before is the previous PodGroup;
// was is false if there was none.
func (pw *podWatch) membershipChanged(listed *corev1.Pod, before types.NamespacedName, was bool) {
	if was && pw.index.trees != nil {
		before = pw.index.trees.WorkloadOf(before)
	}
	pw.workloadChanged(listed, before, was)
}

// workloadChanged handles a pod that may belong to another workload than before. was is false if
// the pod belonged to no group.
//
// listed may be an outdated version of the pod. The pod may have been changed or deleted, and the
// informer's handler may have seen that before this call.
func (pw *podWatch) workloadChanged(listed *corev1.Pod, before types.NamespacedName, was bool) {
	pod, exists := pw.index.podOf(podKey(listed))
	if !exists {
		pod = listed
	}
	now, is := pw.index.groupOf(pod)
	if was != is || before != now {
		pw.memberships.regrouped(pod, before, was)
		if is {
			pw.cluster.GroupChanged(now)
		}
		switch {
		case pod.Spec.NodeName != "":
			pw.cluster.NodeChanged(pod.Spec.NodeName)
		case pw.records.IsAssumed(string(pod.UID)):
			// Only the scheduler's cache has the node of an assumed pod, so the whole snapshot is
			// read again.
			pw.cluster.Invalidate()
		}
	}
	for exists {
		pw.changed(pod, pod.Spec.NodeName == "")
		var after *corev1.Pod
		if after, exists = pw.index.podOf(podKey(pod)); after == pod {
			break
		} else if exists {
			pod = after
		}
	}
	switch {
	case !exists:
		pw.deleted(pod)
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
		pw.retries.activate(pod)
	}
}

// behind returns the reason why a derived or bounded gang is blocked as a whole, before any member
// has a node. For example, its PodGroup does not count all members yet, or outranks one of its
// pods. Once members have nodes, the gang is not blocked. Only pods that the group outranks are
// then blocked.
func (o *placements) behind(g *gang.Group, members *gang.Members) gang.Verdict {
	want, derived := o.index.derived.MinCount(g.Key)
	if !derived && !g.Bounded || !g.IsGang() || o.through(members) > 0 {
		return gang.Verdict{}
	}
	for _, pod := range slices.Concat(members.Pending, members.Gated) {
		if v := gang.Outranked(o.index.derived, o.index.groups, pod); v != (gang.Verdict{}) {
			return v
		}
	}
	if g.Tree != nil {
		return o.index.behindInTree(g)
	}
	if !derived || g.MinCount >= want {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason:  v1alpha1.ReasonBehindItsObject,
		Message: fmt.Sprintf("PodGroup %s needs %d members now, and is placed after Reprieve has raised this number to %d", g.Key, g.MinCount, want),
	}
}

// seatsOfRoles is the result of byRole: the waiting members of a gang, divided by the need of their
// roles.
type seatsOfRoles struct {
	// surplus holds the UIDs of the waiting members that their role does not need.
	surplus map[types.UID]bool
	// needed is the number of waiting members that their roles need.
	needed int
	// counting is the number of placed members that count for the need of their role.
	counting int
	// several is true if the members have more than one role.
	several bool
}

// byRole divides the waiting members of a gang into needed and surplus members. In each role,
// placed members fill the need first, then waiting members in their order. The rest is surplus.
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

// roleOf returns the role of a gang member. The search determines surplus by role. It returns nil
// for pods of other groups. It also returns nil if minCount differs from the sum of the needs of
// all roles, for example because the gang has grown since its start.
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

// neededFirst sorts the waiting members of a gang: members that their role needs come before
// surplus. Otherwise, the order stays the same. The first members count for minCount, so an old
// surplus worker must not come before a newer head.
func (s *seatsOfRoles) neededFirst(waiting []*corev1.Pod) {
	turn := func(pod *corev1.Pod) int {
		if s.surplus[pod.UID] {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int { return cmp.Compare(turn(a), turn(b)) })
}

// lacking returns the number of waiting members that must be placed for a whole gang. It is
// minCount minus the members that have passed their cycles. It is higher if placed members are
// surplus in their role, for example if a gang with too many workers lost its head. lacking sorts
// waiting, because the members count in this order.
func (o *placements) lacking(g *gang.Group, members *gang.Members, waiting []*corev1.Pod) int {
	if g.Tree != nil {
		return gang.LacksInTree(g, members, waiting)
	}
	lacking := max(g.MinCount-o.through(members), 0)
	want, derived := o.index.derived.MinCount(g.Key)
	if !derived {
		return lacking
	}
	assumed := slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool { return !members.Reserved.Has(pod.UID) })
	roles := o.index.byRole(waiting, members.Assigned, members.Succeeded, assumed)
	roles.neededFirst(waiting)
	// A gang that has grown since its start may have new roles. Members past minCount preempt
	// nothing, so the roles do not count for it.
	if roles.several && want == g.MinCount {
		lacking = max(lacking, min(roles.needed, g.MinCount-roles.counting))
	}
	return lacking
}
