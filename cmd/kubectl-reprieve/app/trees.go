package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// mostAlone is the maximum number of parts of a tree that get their own decision for one answer.
const mostAlone = 8

// toldTree describes a tree of groups that is placed as a unit.
type toldTree struct {
	Name string `json:"name"`
	// NeededGroups is the number of the root's groups that must be complete before the tree starts;
	// 0 for a tree that can never start.
	NeededGroups int `json:"neededGroups,omitempty"`
	// Groups is the number of the root's groups; 0 for a tree that can never start.
	Groups int `json:"groups,omitempty"`
	// Parts lists the groups below the root. Each group comes before the groups below it.
	Parts []toldPart `json:"parts"`
	// Together is true if each needed part has room alone, but all needed parts together do not
	// fit.
	Together bool `json:"together,omitempty"`
	// Flaw is the reason why the tree cannot start again. It is set only if no members of the tree
	// are pending. An example is a running tree whose root was deleted.
	Flaw string `json:"flaw,omitempty"`
}

// toldPart describes a group of a tree.
type toldPart struct {
	Name string `json:"name"`
	// Needed is true if the tree needs the group in order to start.
	Needed bool `json:"needed"`
	// Needs is the minCount of a PodGroup, or the minGroupCount of a CompositePodGroup.
	Needs int `json:"needs"`
	// Has is the number of members of a PodGroup. For a CompositePodGroup, it is the number of
	// groups with enough members.
	Has int `json:"has"`
	// Placed is the number of members with a node.
	Placed int `json:"placed"`
	// Alone is the decision for a PodGroup as if it had no parent. It is set for needed PodGroups
	// with enough members, if the tree finds no room.
	Alone *whatif.Step `json:"alone,omitempty"`

	key types.NamespacedName
}

// isComposite reports whether the part is a CompositePodGroup.
func (p *toldPart) isComposite() bool { return gang.IsTree(p.key) }

// hasTrouble reports whether the part prevents the start of the tree: it is needed, and lacks
// members or room.
func (p *toldPart) hasTrouble() bool {
	return p.Needed && (p.Has < p.Needs || p.Alone != nil && !hasRoom(p.Alone))
}

func hasRoom(step *whatif.Step) bool {
	return step.Outcome != core.Infeasible && step.Outcome != whatif.Held
}

// isGroup reports whether the subject is a PodGroup or a CompositePodGroup.
func (s *subject) isGroup() bool { return s.kind == kindPodGroup || s.kind == kindComposite }

// groupKey returns the key of the group that the subject is. It is only valid if isGroup is true.
func (s *subject) groupKey() types.NamespacedName {
	if s.kind == kindComposite {
		return gang.TreeKey(s.key.Namespace, s.key.Name)
	}
	return s.key
}

// isPartOf reports whether a PodGroup is the subject, or is below a subject that is a
// CompositePodGroup.
func (s *subject) isPartOf(podGroup types.NamespacedName) bool {
	of := s.groupKey()
	return podGroup == of || gang.IsTree(of) && (slices.Contains(s.trees.KeysOf(podGroup), of) || s.trees.WorkloadOf(podGroup) == of)
}

// model returns the scheduler's model of a group, which may be a tree.
func (s *subject) model(pg *v1alpha1.PodGroup) *gang.Group {
	if key := keyOf(pg); gang.IsTree(key) {
		if g, ok := s.trees.Group(key); ok {
			return g
		}
	}
	return gang.FromPodGroup(pg)
}

// workloadsOf returns the workloads of a group's PodGroups: for each PodGroup, the group that it is
// placed with. For a group without PodGroups, it returns the group itself.
func (s *subject) workloadsOf(key types.NamespacedName) sets.Set[types.NamespacedName] {
	out := sets.New[types.NamespacedName]()
	for _, leaf := range s.trees.Leaves(key) {
		out.Insert(s.trees.WorkloadOf(leaf))
	}
	if out.Len() == 0 {
		out.Insert(key)
	}
	return out
}

// findUnits fills in s.units: the groups that the subject, or one of its pods, may be evicted with.
func (s *subject) findUnits(pods []*corev1.Pod) {
	s.units = sets.New[types.NamespacedName]()
	if s.isGroup() {
		s.units.Insert(s.trees.KeysOf(s.groupKey())...)
		s.units.Insert(s.trees.Below(s.groupKey())...)
	}
	for _, pod := range pods {
		if !s.isOwn(pod) {
			continue
		}
		if key, ok := s.podGroups.GroupOf(pod); ok && s.trees.WorkloadOf(key) != key {
			s.units.Insert(s.trees.KeysOf(key)...)
		}
	}
}

// missingTrees returns stand-ins for CompositePodGroups that do not exist although PodGroups name
// them as their parents.
func (s *subject) missingTrees(keys sets.Set[types.NamespacedName]) []*v1alpha1.PodGroup {
	var out []*v1alpha1.PodGroup
	for key := range keys {
		known := slices.ContainsFunc(s.all, func(pg *v1alpha1.PodGroup) bool { return keyOf(pg) == key })
		if _, ok := s.trees.Group(key); ok && !known && gang.IsTree(key) {
			out = append(out, &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.PodGroup) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// ownGroups returns the groups of reprieve.dev in an inventory: the PodGroups, and the
// CompositePodGroups converted to PodGroups.
func ownGroups(objects *inventory.Inventory) ([]*v1alpha1.PodGroup, error) {
	all, err := inventory.Decode[*v1alpha1.PodGroup](objects, inventory.PodGroups)
	if err != nil {
		return nil, err
	}
	composites, err := inventory.Decode[*v1alpha1.CompositePodGroup](objects, inventory.Composites)
	for _, c := range composites {
		all = append(all, gang.AsPodGroup(c))
	}
	return all, err
}

// partName returns the command-line argument that names a group, such as "podgroup/train".
func partName(key types.NamespacedName) string {
	if composite, ok := gang.CompositeOf(key); ok {
		return "compositepodgroup/" + composite.Name
	}
	return "podgroup/" + key.Name
}

// tree describes the tree that the subject is placed with. Without a tree, it returns nil.
func (s *subject) tree() *toldTree {
	if s.group == nil || !gang.IsTree(keyOf(s.group)) {
		return nil
	}
	g := s.model(s.group)
	out := &toldTree{Name: groupName(keyOf(s.group)), Parts: []toldPart{}}
	if g.Tree == nil {
		return out
	}
	members := gang.MembersOf(s.pods)
	placed := g.Tree.CountByPart(members.Assigned, members.Succeeded)
	have := g.Tree.CountByPart(members.Assigned, members.Succeeded, members.Pending)
	chosen := sets.New(g.Tree.Choose(have, placed).Leaves...)
	if len(s.pending()) == 0 {
		out.Flaw = g.Flaw.Message
	}
	if g.Flaw == (gang.Verdict{}) {
		out.NeededGroups, out.Groups = g.Tree.Need, len(g.Tree.Parts)
	} else {
		// A flaw in one group blocks the whole tree, so show all groups as needed.
		for _, key := range s.trees.Below(g.Key) {
			chosen.Insert(key.Name)
		}
	}
	addNeeded(g.Tree, chosen)
	for _, part := range g.Tree.Parts {
		out.add(part, have, placed, chosen)
	}
	return out
}

// add adds a group and the groups below it to Parts. have and placed map PodGroups to numbers of
// members. chosen has the names of the groups that the tree needs to start.
func (t *toldTree) add(part *gang.Tree, have, placed map[string]int, chosen sets.Set[string]) {
	told := toldPart{Name: groupName(part.Key), Needed: chosen.Has(part.Key.Name), Needs: part.Need, key: part.Key}
	for _, leaf := range part.Leaves() {
		told.Needed = told.Needed || chosen.Has(leaf.Name)
		told.Placed += placed[leaf.Name]
	}
	if !told.isComposite() {
		told.Has = have[part.Key.Name]
	}
	for _, below := range part.Parts {
		if below.Choose(have, have).Complete {
			told.Has++
		}
	}
	t.Parts = append(t.Parts, told)
	if told.Needed {
		addNeeded(part, chosen)
	}
	for _, below := range part.Parts {
		t.add(below, have, placed, chosen)
	}
}

// addNeeded adds the groups directly below a needed group to chosen if the needed group needs all
// of them. Some of them may have no PodGroups.
func addNeeded(group *gang.Tree, chosen sets.Set[string]) {
	if len(group.Parts) > group.Need {
		return
	}
	for _, below := range group.Parts {
		chosen.Insert(below.Key.Name)
	}
}

// decideParts fills in the field Together, and the field Alone of each needed PodGroup without
// enough placed members. It makes at most mostAlone decisions. Call it only if the decision for the
// whole tree is infeasible.
func (t *toldTree) decideParts(ctx context.Context, asked *question, about *subject, told func(decided int)) error {
	decided, fit, all := 0, 0, true
	for i := range t.Parts {
		p := &t.Parts[i]
		if !p.Needed || p.isComposite() || p.Has < p.Needs || p.Placed >= p.Needs {
			continue
		}
		at := slices.IndexFunc(about.pending(), func(pod *corev1.Pod) bool {
			key, ok := about.podGroups.GroupOf(pod)
			return ok && key == p.key && !isGated(pod)
		})
		if all = all && at >= 0 && decided < mostAlone; at < 0 || decided == mostAlone {
			continue
		}
		told(decided)
		decided++
		step, ok, err := whatif.Alone(ctx, asked.objects, asked.cfg, p.key, podKey(about.pending()[at]))
		if err != nil {
			return err
		}
		if all = all && ok; !ok {
			continue
		}
		if p.Alone = &step; hasRoom(&step) {
			fit++
		}
	}
	t.Together = all && fit == decided && decided > 1
	return nil
}

// show prints the tree. Parts that prevent the start of the tree come first. If wide is false, it
// prints only the first few parts.
func (t *toldTree) show(to io.Writer, wide bool) {
	switch {
	case t.Groups > 0 && t.Groups < t.NeededGroups:
		fmt.Fprintf(to, "%s: placed as a whole with %s, which needs %s and has %d.\n", saysTree, t.Name, plural(t.NeededGroups, "group"), t.Groups)
	case t.Groups > 0:
		fmt.Fprintf(to, "%s: placed as a whole with %s, which needs %d of its %s.\n", saysTree, t.Name, t.NeededGroups, plural(t.Groups, "group"))
	default:
		fmt.Fprintf(to, "%s: placed as a whole with %s.\n", saysTree, t.Name)
	}
	parts := slices.Clone(t.Parts)
	slices.SortStableFunc(parts, func(a, b toldPart) int {
		switch {
		case a.hasTrouble() == b.hasTrouble():
			return 0
		case a.hasTrouble():
			return -1
		default:
			return 1
		}
	})
	for i := range parts {
		if i == fewShown && !wide {
			fmt.Fprintf(to, "%s: %d more, see -o wide.\n", saysPart, len(parts)-i)
			break
		}
		fmt.Fprintf(to, "%s: %s %s.\n", saysPart, parts[i].Name, parts[i].text())
	}
	if t.Flaw != "" {
		fmt.Fprintf(to, "%s: it cannot start again: %s.\n", saysTree, t.Flaw)
	}
	if t.Together {
		fmt.Fprintf(to, "%s: each part has room alone, but there is no room for all at once.\n", saysTree)
	}
}

// text describes the part in words.
func (p *toldPart) text() string {
	var out strings.Builder
	noun, has := "member", plural(p.Has, "member")
	if p.isComposite() {
		noun, has = "group", fmt.Sprintf("%d with enough members", p.Has)
	}
	if p.Has < p.Needs {
		fmt.Fprintf(&out, "lacks %s: it needs %s and has %s", plural(p.Needs-p.Has, noun), plural(p.Needs, noun), has)
	} else {
		fmt.Fprintf(&out, "needs %s and has %s", plural(p.Needs, noun), has)
	}
	fmt.Fprintf(&out, ", %d with a node", p.Placed)
	switch {
	case !p.Needed:
		out.WriteString("; the tree starts without it")
	case p.Alone == nil:
	case hasRoom(p.Alone):
		fmt.Fprintf(&out, "; alone it has room: %s", p.Alone.Message)
	default:
		fmt.Fprintf(&out, "; alone it lacks room: %s", p.Alone.Message)
	}
	return out.String()
}
