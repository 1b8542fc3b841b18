package whatif

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// complete extends the list of protected units of a decision. A decision names only the first few
// units that the rule NotLowerPriority protects; complete returns all of these units. It does not
// change a list that is complete already, or that has units with other rules.
func (c *Cluster) complete(units []core.ProtectedUnit, pods []*corev1.Pod) []core.ProtectedUnit {
	const mostNamed = 20
	other := slices.ContainsFunc(units, func(u core.ProtectedUnit) bool { return u.Rule != core.RuleNotLowerPriority })
	if len(units) < mostNamed || len(pods) == 0 || other {
		return units
	}
	out, seen := slices.Clone(units), make(map[string]bool, len(units))
	for i := range units {
		seen[units[i].UID] = true
	}
	priority := c.shared.PriorityOf(pods[0])
	for _, pod := range c.pods {
		of := c.shared.PriorityOf(pod)
		if pod.Spec.NodeName == "" || hasFinished(pod) || of < priority {
			continue
		}
		unit := core.UnitRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Priority: of}
		if key, ok := c.GroupOf(pod); ok {
			if g, ok := c.groups.Group(key); ok && g.Whole {
				unit.Name, unit.UID, unit.Group = key.Name, string(g.UID), true
			}
		}
		if !seen[unit.UID] {
			seen[unit.UID] = true
			out = append(out, core.ProtectedUnit{UnitRef: unit, Rule: core.RuleNotLowerPriority})
		}
	}
	return out
}

// byHelp sorts protected units by the number of the given pods that would fit if the unit were
// evicted, which is the unit's gain. Units whose eviction would be enough for all pods come first.
// Units with equal gain are sorted by the end of their protection. Units without any gain come
// last, in the order of the decision.
func (c *Cluster) byHelp(units []core.ProtectedUnit, pods []*corev1.Pod) error {
	if len(units) < 2 || len(pods) == 0 {
		return nil
	}
	nodes, err := inventory.Decode[*corev1.Node](c.objects, inventory.Nodes)
	if err != nil {
		return err
	}
	rooms := make(map[string]*room, len(nodes))
	for _, node := range nodes {
		if suits(node, pods[0]) && !node.Spec.Unschedulable {
			rooms[node.Name] = &room{free: node.Status.Allocatable.DeepCopy()}
		}
	}
	for _, pod := range c.pods {
		if r := rooms[pod.Spec.NodeName]; r != nil {
			r.take(pod, -1)
		}
	}
	needed, request := int64(len(pods)), requestsOf(pods[0])
	gains := make(map[string]int64, len(units))
	for i := range units {
		gains[units[i].UID] = min(c.gain(&units[i], rooms, request), needed)
	}
	slices.SortStableFunc(units, func(a, b core.ProtectedUnit) int {
		if gains[a.UID] == 0 && gains[b.UID] == 0 {
			return 0
		}
		return cmp.Or(cmp.Compare(gains[b.UID], gains[a.UID]), compareEnds(a.Until, b.Until))
	})
	return nil
}

// compareEnds compares the ends of two protections, in nanoseconds since 1970. 0 means no end, and
// sorts last.
func compareEnds(a, b int64) int {
	if (a == 0) != (b == 0) {
		if a == 0 {
			return 1
		}
		return -1
	}
	return cmp.Compare(a, b)
}

// gain returns the number of further pods with the request that would fit on a unit's nodes if the
// unit were evicted.
func (c *Cluster) gain(u *core.ProtectedUnit, rooms map[string]*room, request corev1.ResourceList) int64 {
	key := types.NamespacedName{Namespace: u.Namespace, Name: u.Name}
	var members []*corev1.Pod
	if pod, ok := c.Pod(key); ok && !u.Group {
		members = []*corev1.Pod{pod}
	} else if u.Group {
		members = c.Members(key)
	}
	without := make(map[string]*room)
	for _, pod := range members {
		name := pod.Spec.NodeName
		if rooms[name] == nil {
			continue
		}
		if without[name] == nil {
			without[name] = &room{free: rooms[name].free.DeepCopy()}
		}
		without[name].take(pod, 1)
	}
	var out int64
	for name, r := range without {
		out += r.holds(request) - rooms[name].holds(request)
	}
	return out
}

type room struct{ free corev1.ResourceList }

// take adds the requests of a pod to the free capacity, multiplied by sign, which is 1 or -1.
func (r *room) take(pod *corev1.Pod, sign int) {
	for name, quantity := range requestsOf(pod) {
		left, ok := r.free[name]
		if !ok {
			continue
		}
		if sign > 0 {
			left.Add(quantity)
		} else {
			left.Sub(quantity)
		}
		r.free[name] = left
	}
}

// holds returns the number of pods with the request that fit into the free capacity.
func (r *room) holds(request corev1.ResourceList) int64 {
	most := int64(-1)
	for name, asked := range request {
		if asked.Sign() <= 0 {
			continue
		}
		free := r.free[name]
		n := max(int64(free.AsApproximateFloat64()/asked.AsApproximateFloat64()+1e-9), 0)
		if most < 0 || n < most {
			most = n
		}
	}
	return max(most, 0)
}
