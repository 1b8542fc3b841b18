package gang

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Roles finds the roles of the pods in derived groups; see [Derived].
type Roles interface {
	// MinCount returns the minCount that the owner of a derived group demands now; false for groups
	// that are not derived.
	MinCount(key types.NamespacedName) (int, bool)
	// RoleOf returns the role of a member in its derived group, and the number of members in that
	// role that the group needs. The number is 0 for pods of other groups.
	RoleOf(pod *corev1.Pod) (role string, needed int)
}

// Parts divides the members of a gang into parts: the roles of a derived gang, or the PodGroups of
// a tree. Members of one part cannot replace members of another part. A nil *Parts describes a gang
// whose members are interchangeable.
type Parts struct {
	// Needs maps the names of the parts to the number of members that each part needs. It has the
	// roles of existing members only.
	Needs map[string]int
	of    func(*corev1.Pod) string
	lacks func(placed map[string]int) int
	whole func(placed map[string]int) bool
	// extra is true if a part may be placed although the gang does not need it, as in a tree.
	extra bool
}

// PartsOf returns the parts of a group. It returns nil for a gang of one role, and for a group that
// is no gang. It also returns nil if only the number of members counts. There are four such cases.
// The gang is not derived, its minCount differs from the owner's demand, a role is unknown, or the
// present roles need no members.
func PartsOf(g *Group, roles Roles, m *Members) *Parts {
	switch {
	case !g.IsGang():
		return nil
	case g.Tree != nil:
		return partsOfTree(g.Tree)
	}
	if want, derived := roles.MinCount(g.Key); !derived || want != g.MinCount {
		return nil
	}
	p := &Parts{Needs: make(map[string]int), of: func(pod *corev1.Pod) string {
		role, _ := roles.RoleOf(pod)
		return role
	}}
	most := 0
	for _, pod := range slices.Concat(m.Pending, m.Gated, m.Assigned, m.Succeeded) {
		role, needed := roles.RoleOf(pod)
		if role == "" {
			// Either the owner has only one role, or the role of this member is not known. So only
			// the number of members counts.
			return nil
		}
		p.Needs[role], most = needed, max(most, needed)
	}
	// One role alone may need all minCount members, for example the head of a RayCluster with
	// optional workers. Members of other roles cannot replace members of this role.
	if most == 0 || len(p.Needs) == 1 && most == g.MinCount {
		return nil
	}
	p.lacks = func(placed map[string]int) int {
		// The role of a member that has succeeded may have become known only after the member was
		// deleted. Such a member counts for any role.
		lacks := g.MinCount - placed[""]
		for role, needed := range p.Needs {
			lacks -= min(placed[role], needed)
		}
		return max(lacks, 0)
	}
	p.whole = func(placed map[string]int) bool { return p.lacks(placed) == 0 }
	return p
}

func partsOfTree(t *Tree) *Parts {
	p := &Parts{
		Needs: make(map[string]int),
		extra: true,
		of:    t.PartOf,
		lacks: func(placed map[string]int) int { return t.Choose(placed, placed).Lacks },
		whole: func(placed map[string]int) bool {
			c := t.Choose(placed, placed)
			return c.Complete && c.Lacks == 0
		},
	}
	for _, leaf := range t.Leaves() {
		p.Needs[leaf.Name] = t.NeedOf(leaf.Name)
	}
	return p
}

// Of returns the name of the part that a member belongs to.
func (p *Parts) Of(pod *corev1.Pod) string {
	if p == nil {
		return ""
	}
	return p.of(pod)
}

// Count returns the number of pods in each part.
func (p *Parts) Count(pods ...[]*corev1.Pod) map[string]int {
	out := make(map[string]int)
	for _, some := range pods {
		for _, pod := range some {
			out[p.Of(pod)]++
		}
	}
	return out
}

// Lacks returns the number of members that a gang still needs. placed is the number of placed
// members in each part. minCount counts only for interchangeable members.
func (p *Parts) Lacks(minCount int, placed map[string]int) int {
	if p != nil {
		return p.lacks(placed)
	}
	for _, n := range placed {
		minCount -= n
	}
	return max(minCount, 0)
}

// Extra returns the parts that a whole gang does not need, with members but with fewer than the
// part needs. Such members are useless. The values are the numbers of missing members.
func (p *Parts) Extra(placed map[string]int) map[string]int {
	if p == nil || !p.extra || !p.whole(placed) {
		return nil
	}
	out := make(map[string]int)
	for part, needed := range p.Needs {
		if n := placed[part]; n > 0 && n < needed {
			out[part] = needed - n
		}
	}
	return out
}

// IsWhole reports whether the needed parts have enough placed members. A tree with too few groups
// is not whole, even if Lacks returns 0 because the missing groups do not exist. The result is true
// for interchangeable members.
func (p *Parts) IsWhole(placed map[string]int) bool { return p == nil || p.whole(placed) }

// IsPlaced reports whether enough members of a group have a node or have succeeded, in total and in
// each part.
func IsPlaced(g *Group, roles Roles, m *Members) bool {
	parts := PartsOf(g, roles, m)
	return g.IsPlaced(m) && parts.IsWhole(parts.Count(m.Assigned, m.Succeeded))
}

// IsShort reports whether a part needs more members. It is always true for interchangeable members.
func (p *Parts) IsShort(part string, placed map[string]int) bool {
	return p == nil || placed[part] < p.Needs[part]
}

// Shortage describes the parts that need more members; "" for none. A role without any pod has no
// known name, so Shortage adds up the needs of such roles.
func (p *Parts) Shortage(placed map[string]int) string {
	if p == nil {
		return ""
	}
	var short []string
	others := p.lacks(placed)
	for _, part := range slices.Sorted(maps.Keys(p.Needs)) {
		if p.IsShort(part, placed) {
			others -= p.Needs[part] - placed[part]
			short = append(short, fmt.Sprintf("%s has %d of %d", part, placed[part], p.Needs[part]))
		}
	}
	if others > 0 {
		short = append(short, fmt.Sprintf("roles without any pod need %d", others))
	}
	return strings.Join(short, ", ")
}
