package gang

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Round is one attempt to place members of a tree. The first MinCount pods must be placed, and as
// many of the others as fit.
type Round struct {
	Pods     []*corev1.Pod
	MinCount int
	// Further is true for groups past minGroupCount. Nothing is preempted for them.
	Further bool
}

// RoundsOf returns the attempts to place the waiting members of a tree, in order. If the tree is
// not whole, the only attempt is for the groups that make it whole. If it is whole, there is one
// attempt for each further group, and one for the surplus of the placed groups.
func RoundsOf(g *Group, members *Members, waiting []*corev1.Pod) []Round {
	c, have, placed := chooseOf(g, members, waiting)
	if c.Lacks > 0 {
		if !c.Complete {
			return []Round{{MinCount: c.Lacks}}
		}
		pods := slices.Clone(waiting)
		return []Round{{Pods: pods[:g.Tree.needFirst(c, placed, pods)], MinCount: c.Lacks}}
	}
	var out []Round
	for _, further := range g.Tree.Further(have, placed) {
		pods := slices.Clone(waiting)
		out = append(out, Round{Pods: pods[:g.Tree.needFirst(further, placed, pods)], MinCount: further.Lacks, Further: true})
	}
	surplus := slices.DeleteFunc(slices.Clone(waiting), func(pod *corev1.Pod) bool {
		part := g.Tree.PartOf(pod)
		return placed[part] < g.Tree.NeedOf(part)
	})
	if len(surplus) > 0 || len(out) == 0 {
		out = append(out, Round{Pods: surplus})
	}
	return out
}

// LacksInTree returns the number of waiting members that must be placed until a tree is whole. It
// sorts waiting: the needed members of the chosen PodGroups come first.
func LacksInTree(g *Group, members *Members, waiting []*corev1.Pod) int {
	c, _, placed := chooseOf(g, members, waiting)
	g.Tree.needFirst(c, placed, waiting)
	return c.Lacks
}

// chooseOf returns the PodGroups that make a tree whole with the fewest further placements; see
// [Tree.Choose]. have counts the members that can run, and placed the members with a place, by the
// name of their PodGroup.
func chooseOf(g *Group, members *Members, waiting []*corev1.Pod) (c Choice, have, placed map[string]int) {
	assumed := members.assumed()
	placed = g.Tree.CountByPart(members.Assigned, members.Succeeded, assumed)
	have = g.Tree.CountByPart(members.Assigned, members.Succeeded, assumed, waiting)
	return g.Tree.Choose(have, placed), have, placed
}

// needFirst sorts waiting members: first the members that a choice needs, then the other members of
// its PodGroups, then all others. Otherwise, the order stays the same. It returns the number of
// members in the first two parts.
func (t *Tree) needFirst(c Choice, placed map[string]int, waiting []*corev1.Pod) (chosen int) {
	left := make(map[string]int, len(c.Leaves))
	for _, leaf := range c.Leaves {
		left[leaf] = t.NeedOf(leaf) - placed[leaf]
	}
	turns := make(map[types.UID]int, len(waiting))
	for _, pod := range waiting {
		part := t.PartOf(pod)
		switch n, ok := left[part]; {
		case !ok:
			turns[pod.UID] = 2
			continue
		case n > 0:
			left[part]--
		default:
			turns[pod.UID] = 1
		}
		chosen++
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int { return cmp.Compare(turns[a.UID], turns[b.UID]) })
	return chosen
}

// InPart checks the PodGroups of the pods in coming. It returns the names of those PodGroups that
// would run in part. counted are the pods that count as placed, in addition to the assigned
// members.
func (t *Tree) InPart(members *Members, coming, counted []*corev1.Pod) sets.Set[string] {
	placed, out := t.CountByPart(members.Assigned, members.Succeeded, counted), sets.New[string]()
	for name := range t.CountByPart(coming) {
		if !t.IsWholeAround(name, placed) {
			out.Insert(name)
		}
	}
	return out
}
