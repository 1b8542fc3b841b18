package gang

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TreeKey returns the key of a CompositePodGroup in a Source. The name in the key has a prefix, so
// the key differs from all keys of PodGroups.
func TreeKey(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: workload.TreePrefix + name}
}

// CompositeOf returns the namespace and name of the CompositePodGroup with a key; false for the key
// of a PodGroup. It is the inverse of TreeKey.
func CompositeOf(key types.NamespacedName) (types.NamespacedName, bool) {
	name, ok := strings.CutPrefix(key.Name, workload.TreePrefix)
	return types.NamespacedName{Namespace: key.Namespace, Name: name}, ok
}

// IsTree reports whether a key is the key of a CompositePodGroup.
func IsTree(key types.NamespacedName) bool { return strings.HasPrefix(key.Name, workload.TreePrefix) }

// Title returns the kind and the name of a group, for messages.
func Title(key types.NamespacedName) string {
	if name, ok := CompositeOf(key); ok {
		return "CompositePodGroup " + name.String()
	}
	return "PodGroup " + key.String()
}

// AsPodGroup converts a CompositePodGroup to a PodGroup, because the scheduler treats a tree of
// groups as one gang. The name of the PodGroup is the name in TreeKey. Its status is a copy of the
// status of the CompositePodGroup.
func AsPodGroup(c *v1alpha1.CompositePodGroup) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: *c.ObjectMeta.DeepCopy(), Status: *c.Status.DeepCopy()}
	pg.Name = TreeKey(c.Namespace, c.Name).Name
	mode := v1alpha1.DisruptionModePod
	if m := c.Spec.DisruptionMode; m != nil && *m == v1alpha1.CompositeDisruptionModeAll {
		mode = v1alpha1.DisruptionModePodGroup
	}
	pg.Spec.DisruptionMode = &mode
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: c.Spec.SchedulingPolicy.Basic}
	pg.Spec.PriorityClassName, pg.Spec.Priority, pg.Spec.PreemptionPolicy = c.Spec.PriorityClassName, c.Spec.Priority, c.Spec.PreemptionPolicy
	pg.Spec.ParentCompositePodGroupName = c.Spec.ParentCompositePodGroupName
	return pg
}

// AsGang is like AsPodGroup, but the PodGroup also has the gang policy. Its minCount is the
// minGroupCount of the CompositePodGroup.
func AsGang(c *v1alpha1.CompositePodGroup) *v1alpha1.PodGroup {
	pg := AsPodGroup(c)
	if p := c.Spec.SchedulingPolicy.Gang; p != nil {
		pg.Spec.SchedulingPolicy.Gang = &v1alpha1.GangSchedulingPolicy{MinCount: p.MinGroupCount}
	}
	return pg
}

// ToComposite converts a PodGroup to the CompositePodGroup that it stands for, without the status.
// It is the inverse of AsGang.
func ToComposite(pg *v1alpha1.PodGroup) *v1alpha1.CompositePodGroup {
	c := &v1alpha1.CompositePodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CompositePodGroup"},
		ObjectMeta: *pg.ObjectMeta.DeepCopy(),
	}
	name, _ := CompositeOf(types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name})
	c.Name = name.Name
	mode := v1alpha1.CompositeDisruptionModeSingle
	if m := pg.Spec.DisruptionMode; m != nil && *m == v1alpha1.DisruptionModePodGroup {
		mode = v1alpha1.CompositeDisruptionModeAll
	}
	c.Spec.DisruptionMode = &mode
	if p := pg.Spec.SchedulingPolicy; p != nil {
		c.Spec.SchedulingPolicy.Basic = p.Basic
		if p.Gang != nil {
			c.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: p.Gang.MinCount}
		}
	}
	c.Spec.PriorityClassName, c.Spec.Priority, c.Spec.PreemptionPolicy = pg.Spec.PriorityClassName, pg.Spec.Priority, pg.Spec.PreemptionPolicy
	c.Spec.ParentCompositePodGroupName = pg.Spec.ParentCompositePodGroupName
	return c
}

// FromComposite returns the Group of a CompositePodGroup, without the groups below it.
func FromComposite(c *v1alpha1.CompositePodGroup) *Group {
	g := FromPodGroup(AsPodGroup(c))
	if p := c.Spec.SchedulingPolicy.Gang; p != nil {
		g.MinGroupCount = int(p.MinGroupCount)
	}
	return g
}

// Tree is a PodGroup or a CompositePodGroup, with all groups below it.
type Tree struct {
	// Key is the key of the group; see TreeKey.
	Key types.NamespacedName
	// Need is the minCount of a PodGroup, or the minGroupCount of a CompositePodGroup.
	Need int
	// Whole is true if the disruption mode is All (CompositePodGroup) or PodGroup (PodGroup).
	Whole bool
	// Parts are the groups directly below a CompositePodGroup, by name. A PodGroup has none.
	Parts []*Tree
	// members finds the PodGroups of pods. If it is nil, only the pods that name a PodGroup have
	// one.
	members Membership
}

func (t *Tree) isLeaf() bool { return !IsTree(t.Key) }

// Leaves returns the keys of the PodGroups in the tree.
func (t *Tree) Leaves() []types.NamespacedName {
	if t.isLeaf() {
		return []types.NamespacedName{t.Key}
	}
	var out []types.NamespacedName
	for _, part := range t.Parts {
		out = append(out, part.Leaves()...)
	}
	return out
}

// leastMembers returns the smallest number of members that satisfy the needs of the tree. For a
// CompositePodGroup, it is between 1 and math.MaxInt32. Each group that the CompositePodGroup still
// lacks counts as one member.
func (t *Tree) leastMembers() int {
	if t.isLeaf() {
		return t.Need
	}
	var counts []int
	for _, part := range t.Parts {
		counts = append(counts, part.leastMembers())
	}
	slices.Sort(counts)
	sum := max(t.Need-len(counts), 0)
	for _, n := range counts[:min(t.Need, len(counts))] {
		sum += n
	}
	return min(max(sum, 1), math.MaxInt32)
}

// LeastSingle is like leastMembers, but counts only members that are evicted one by one. Groups in
// mode All or PodGroup count as 0.
func (t *Tree) LeastSingle() int {
	switch {
	case t.Whole:
		return 0
	case t.isLeaf():
		return t.Need
	}
	var counts []int
	for _, part := range t.Parts {
		counts = append(counts, part.LeastSingle())
	}
	slices.Sort(counts)
	sum := 0
	for _, n := range counts[:min(t.Need, len(counts))] {
		sum += n
	}
	return sum
}

// NeedOf returns the minCount of the PodGroup with a name; 0 if the tree has no such PodGroup.
func (t *Tree) NeedOf(leaf string) int {
	if t.isLeaf() {
		if t.Key.Name == leaf {
			return t.Need
		}
		return 0
	}
	for _, part := range t.Parts {
		if n := part.NeedOf(leaf); n > 0 {
			return n
		}
	}
	return 0
}

// Choice is a set of PodGroups that satisfies the need of a tree.
type Choice struct {
	// Leaves are the names of the chosen PodGroups, in the order of the tree.
	Leaves []string
	// Lacks is the number of members of the chosen PodGroups that must still be placed.
	Lacks int
	// Complete is true if enough members exist: enough groups, each with the members that it needs.
	Complete bool
}

// Choose returns the PodGroups that satisfy the need of the tree with the fewest further
// placements. It prefers complete groups, then groups that lack fewer placements, then the first by
// name.
//
// have counts the existing members that can run, and placed counts the members that have a node or
// have succeeded. The keys of both maps are names of PodGroups.
func (t *Tree) Choose(have, placed map[string]int) Choice {
	if t.isLeaf() {
		name := t.Key.Name
		return Choice{Leaves: []string{name}, Lacks: max(t.Need-placed[name], 0), Complete: have[name] >= t.Need}
	}
	out := Choice{Complete: len(t.Parts) >= t.Need}
	for _, c := range t.ranked(have, placed)[:min(t.Need, len(t.Parts))] {
		out.Leaves = append(out.Leaves, c.Leaves...)
		out.Lacks += c.Lacks
		out.Complete = out.Complete && c.Complete
	}
	return out
}

// IsWholeAround reports whether the needs of a PodGroup and of all groups above it are satisfied.
// placed is the number of placed members of each PodGroup, by its name.
func (t *Tree) IsWholeAround(leaf string, placed map[string]int) bool {
	if c := t.Choose(placed, placed); !c.Complete || c.Lacks > 0 {
		return false
	}
	for _, part := range t.Parts {
		if slices.ContainsFunc(part.Leaves(), func(key types.NamespacedName) bool { return key.Name == leaf }) {
			return part.IsWholeAround(leaf, placed)
		}
	}
	return true
}

// ranked returns the choice of each part, in order of preference.
func (t *Tree) ranked(have, placed map[string]int) []Choice {
	out := make([]Choice, len(t.Parts))
	for i, part := range t.Parts {
		out[i] = part.Choose(have, placed)
	}
	slices.SortStableFunc(out, func(a, b Choice) int {
		switch {
		case a.Complete == b.Complete:
			return cmp.Compare(a.Lacks, b.Lacks)
		case a.Complete:
			return -1
		default:
			return 1
		}
	})
	return out
}

// Further returns the groups that can be placed in addition to a satisfied tree. Each listed group
// has enough members, and some of them have no node yet. The order is by name. A group below a
// listed group is not listed separately.
func (t *Tree) Further(have, placed map[string]int) []Choice {
	if t.isLeaf() {
		return nil
	}
	var out []Choice
	for _, part := range t.Parts {
		switch c := part.Choose(have, placed); {
		case c.Complete && c.Lacks > 0:
			out = append(out, c)
		case c.Complete:
			out = append(out, part.Further(have, placed)...)
		}
	}
	return out
}

// PartOf returns the name of a pod's PodGroup; "" for a pod without a PodGroup.
func (t *Tree) PartOf(pod *corev1.Pod) string {
	if t.members == nil {
		key, _ := GroupOf(pod)
		return key.Name
	}
	key, ok := t.members.GroupOf(pod)
	if !ok {
		return ""
	}
	return key.Name
}

// CountByPart counts pods by the names of their PodGroups.
func (t *Tree) CountByPart(pods ...[]*corev1.Pod) map[string]int {
	out := make(map[string]int)
	for _, some := range pods {
		for _, pod := range some {
			if part := t.PartOf(pod); part != "" {
				out[part]++
			}
		}
	}
	return out
}

// IsPlaced reports whether at least minCount members, and at least one, have a node or have
// succeeded. In a tree with the gang policy, enough groups must have enough such members.
func (g *Group) IsPlaced(m *Members) bool {
	if g.Tree == nil {
		return m.Placed() >= max(g.MinCount, 1)
	}
	if g.Tree.Need == 0 || m.Placed() == 0 {
		return m.Placed() > 0
	}
	placed := g.Tree.CountByPart(m.Assigned, m.Succeeded)
	c := g.Tree.Choose(placed, placed)
	return c.Complete && c.Lacks == 0
}

// gate returns the verdict on a tree that has too few groups with enough members; the zero Verdict
// for other trees.
func (t *Tree) gate(m *Members) Verdict {
	have := t.CountByPart(m.Pending, m.Assigned, m.Succeeded)
	if t.Choose(have, have).Complete {
		return Verdict{}
	}
	complete, short := 0, ""
	for _, part := range t.Parts {
		if part.Choose(have, have).Complete {
			complete++
		} else {
			short = cmp.Or(short, part.shortage(have))
		}
	}
	if short != "" {
		short = "; " + short
	}
	return Verdict{
		Reason:  v1alpha1.ReasonNotEnoughGroups,
		Message: fmt.Sprintf("%s needs %d groups with enough members and has %d%s", Title(t.Key), t.Need, complete, short),
	}
}

// shortage describes the first group that has too few members or too few groups.
func (t *Tree) shortage(have map[string]int) string {
	if t.isLeaf() {
		return fmt.Sprintf("%s needs %d members and has %d", Title(t.Key), t.Need, have[t.Key.Name])
	}
	complete, short := 0, ""
	for _, part := range t.Parts {
		if part.Choose(have, have).Complete {
			complete++
		} else {
			short = cmp.Or(short, part.shortage(have))
		}
	}
	return cmp.Or(short, fmt.Sprintf("%s needs %d groups and has %d", Title(t.Key), t.Need, complete))
}

// byName compares keys by namespace and then by name.
func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
