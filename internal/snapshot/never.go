package snapshot

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// part returns the facts that apply to a pod in a tree with the facts g. They differ from g if the
// pod's PodGroup has the disruption mode Never: the toleration is longer then. groups caches the
// result for each PodGroup.
func (c *Cache) part(g *core.Group, tree types.NamespacedName, pod *corev1.Pod, groups map[types.NamespacedName]*core.Group) *core.Group {
	if g == nil || g.Whole {
		return g
	}
	key, ok := c.sources.Membership.PodGroupOf(pod)
	if !ok {
		return g
	}
	if known := groups[key]; known != nil {
		return known
	}
	groups[key] = c.sources.withNever(g, tree, key)
	return groups[key]
}

// withNever returns the facts about the PodGroup key of a tree whose facts are g. It returns g
// itself if the disruption mode Never does not protect the PodGroup.
//
// If the tree is stale, its members are one unit. The members of the PodGroup are a unit of their
// own then, so that their protection does not extend to the rest of the tree.
func (s *Sources) withNever(g *core.Group, tree, key types.NamespacedName) *core.Group {
	never, ok := s.Groups.NeverGroup(key)
	if !ok {
		return g
	}
	whole, ok := s.Groups.Group(tree)
	if !ok {
		return g
	}
	longest := longer(g.Toleration, s.never(never, whole, timeOf(g.Since)))
	if longest == g.Toleration {
		return g
	}
	out := *g
	out.Toleration = longest
	if g.Stale {
		out.Namespace, out.Name, out.UID = key.Namespace, key.Name, string(never.UID)
		out.Workload = cmp.Or(g.Workload, g.UID)
	}
	return &out
}

// never returns the toleration that the disruption mode Never gives to a PodGroup; nil for none.
// The PriorityClass of its tree, or of the PodGroup itself if it is placed alone, sets the length.
// The toleration protects the members only as far as all PriorityClasses that they were placed with
// do. It protects none of them if one was placed before the mode applied.
func (s *Sources) never(g, tree *gang.Group, since time.Time) *core.Toleration {
	class := tree.PriorityClassName
	if tree.Priority == nil || class == "" {
		return nil
	}
	placed := s.Groups.Placed(g.Key)
	if !PlacedWithNever(placed) {
		return nil
	}
	out := s.Tolerations.OfNever(class, since)
	for _, pod := range placed {
		if one, ok := gang.SealOf(pod); ok && one.Class != class {
			out = weaker(out, s.Tolerations.OfNever(one.Class, since))
		}
	}
	return out
}

// PlacedWithNever reports whether the seals of all pods record that the disruption mode Never
// applied when the pod was placed. A pod on a node without a seal was not placed by the scheduler,
// so it does not qualify. An assumed pod has no node and no seal yet, and does not count.
func PlacedWithNever(pods []*corev1.Pod) bool {
	for _, pod := range pods {
		if one, ok := gang.SealOf(pod); ok && !one.Never || !ok && pod.Spec.NodeName != "" {
			return false
		}
	}
	return true
}

// longer returns the toleration of a group that has a toleration by its class and another by the
// disruption mode Never. It is the toleration that ends last. Two tolerations from one
// class have its minimum, and the result protects exactly as far as the two together.
func longer(class, never *core.Toleration) *core.Toleration {
	if never == nil || class != nil && !endsBefore(class, never) {
		return class
	}
	return never
}

// timeOf is the inverse of Nanos.
func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
