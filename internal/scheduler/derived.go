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
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Derived knows the groups that are made for pods which do not name one.
type Derived interface {
	gang.Derived
	gang.Bounds
	// Hold says why a pod cannot be considered before more is known of what it belongs to.
	Hold(pod *corev1.Pod) gang.Verdict
	// MinCount is how many members a derived group is to need; false for one that is not derived.
	MinCount(key types.NamespacedName) (int, bool)
	// RoleOf is the role that a member of a derived group has in it, and how many of that role the group needs; 0 for pods of other groups.
	RoleOf(pod *corev1.Pod) (role string, needed int)
	// Leads returns the need of a driver by its object; false if the object does not define it.
	Leads(pod *corev1.Pod) (gang.Lead, bool)
	// QueueOf is the queue that a pod names in words of another scheduler which its profile understands; "" for none.
	QueueOf(pod *corev1.Pod) string
}

// underived is where no groups are derived.
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

// Anchored are the pods with an anchor, those that have finished included.
func (r *roster) Anchored(anchor string) []*corev1.Pod { return r.lister.Anchored(anchor) }

// MembershipChanged follows a pod into another group, or out of one, because of what has become known of the object that it
// belongs to. One that was held back for want of that is tried. The pod may have changed or gone since it was listed, and the
// informer's handler may have been here before.
func (h *Hub) MembershipChanged(listed *corev1.Pod, before types.NamespacedName, was bool) {
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
			// Only the scheduler's own picture says on which node it is.
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

// regrouped repairs what a pod leaves behind that is in another group now.
func (h *Hub) regrouped(pod *corev1.Pod, before types.NamespacedName, was bool) {
	// What it was promised, it was promised as a part of something else.
	h.reserved.ReleasePod(pod.UID)
	h.waits.Forget(podKey(pod))
	h.endWait(podKey(pod), decisionlog.Gone)
	if was {
		h.memberLeft(before, pod)
	}
}

// behind says of a gang that is made for its pods, none of which has had a node, that its PodGroup does not ask for all of them yet, or
// stands higher than one of them. Once some have, such a one waits by itself.
func (o *occupancy) behind(g *gang.Group, members *gang.Members) gang.Verdict {
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

// seatsOfRoles are what the members of a gang that wait count for, by their roles.
type seatsOfRoles struct {
	// surplus are those of whose role the gang has as many as it needs without them.
	surplus map[types.UID]bool
	// needed is how many the others are, and counting how many members with a place are needed for their role.
	needed, counting int
	// several is true where the members have more than one role.
	several bool
}

// byRole tells the members of a gang that wait apart by whether the gang needs them beside the ones that have a place: those that come
// first, as many of each role as it has to have.
func (r *roster) byRole(waiting []*corev1.Pod, placed ...[]*corev1.Pod) seatsOfRoles {
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

// roleOf is the role of a member of a gang, by which its surplus is counted; nil where minCount is
// not the sum of what the roles need, as in a gang that has grown since it began to run, and for
// pods of other groups.
func (r *roster) roleOf(g *gang.Group, pod *corev1.Pod) *core.Role {
	if want, derived := r.derived.MinCount(g.Key); !derived || want != g.MinCount {
		return nil
	}
	role, needed := r.derived.RoleOf(pod)
	if needed == 0 {
		return nil
	}
	return &core.Role{Name: role, Needs: int32(needed)}
}

// neededFirst orders the members of a gang that wait: first those that it needs of each role, since minCount counts them in this order, then
// the others. Within both the order stays: workers that are surplus are never in the place of a head, though they may be older.
func (s *seatsOfRoles) neededFirst(waiting []*corev1.Pod) {
	turn := func(pod *corev1.Pod) int {
		if s.surplus[pod.UID] {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int { return cmp.Compare(turn(a), turn(b)) })
}

// unplaced are the members that wait and are not assumed on a node.
func unplaced(members *gang.Members) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool { return members.Reserved.Has(pod.UID) })
}

// lacking is how many of the members that wait have to be placed for a gang to be whole: as many as minCount is more than those that are
// through and, where it has lost its head and has workers past their minimum, its head. It brings those that wait into the order in which they count.
func (o *occupancy) lacking(g *gang.Group, members *gang.Members, waiting []*corev1.Pod) int {
	lacking := max(g.MinCount-o.through(members), 0)
	want, derived := o.derived.MinCount(g.Key)
	if !derived {
		return lacking
	}
	assumed := slices.DeleteFunc(slices.Clone(members.Pending), func(pod *corev1.Pod) bool { return !members.Reserved.Has(pod.UID) })
	roles := o.byRole(waiting, members.Assigned, members.Succeeded, assumed)
	roles.neededFirst(waiting)
	// One that has grown since it began to run may have roles that it began without: what is past minCount preempts nothing.
	if roles.several && want == g.MinCount {
		lacking = max(lacking, min(roles.needed, g.MinCount-roles.counting))
	}
	return lacking
}
