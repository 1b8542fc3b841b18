package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// RoleOf returns the role of a gang member. The search determines surplus by role. It returns nil
// for pods of other groups. It also returns nil if minCount differs from the sum of the needs of
// all roles, for example because the gang has grown since its start.
func (r *Index) RoleOf(g *gang.Group, pod *corev1.Pod) *core.Role {
	if want, derived := r.Derived.MinCount(g.Key); !derived || want != g.MinCount {
		return nil
	}
	role, needed := r.Derived.RoleOf(pod)
	if needed == 0 {
		return nil
	}
	return &core.Role{Name: role, Needs: int32(needed)}
}

// RoleInSeal returns the role that the seal of a pod records. If the PodGroup of the pod is derived
// from an object, it is the role that the object defines, even in a tree. Otherwise, it is the
// pod's part of the tree.
func (r *Index) RoleInSeal(pod *corev1.Pod) string {
	if d, ok := r.Derived.(treed); ok {
		if role, _ := d.Derived.RoleOf(pod); role != "" {
			return role
		}
	}
	role, _ := r.Derived.RoleOf(pod)
	return role
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
func (r *Index) byRole(waiting []*corev1.Pod, placed ...[]*corev1.Pod) seatsOfRoles {
	have := make(map[string]int)
	out := seatsOfRoles{surplus: make(map[types.UID]bool, len(waiting))}
	counts := func(pod *corev1.Pod) bool {
		role, needed := r.Derived.RoleOf(pod)
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

// Lacking returns the number of waiting members that must be placed for a whole gang. It is
// minCount minus the members that have passed their cycles. It is higher if placed members are
// surplus in their role, for example if a gang with too many workers lost its head. Lacking sorts
// waiting, because the members count in this order.
func (o *Placements) Lacking(g *gang.Group, members *gang.Members, waiting []*corev1.Pod) int {
	if g.Tree != nil {
		return gang.LacksInTree(g, members, waiting)
	}
	lacking := max(g.MinCount-o.Through(members), 0)
	want, derived := o.index.Derived.MinCount(g.Key)
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
