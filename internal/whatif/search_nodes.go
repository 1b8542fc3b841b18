package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// mostCordons is the maximum number of decisions to find the nodes that must be uncordoned. At the
// limit, the remedy may name nodes that are not necessary.
const mostCordons = 64

// cordons looks for cordoned nodes that help if they are uncordoned. It leaves out the nodes that
// are not necessary.
func (s *search) cordons(ctx context.Context) ([]Remedy, error) {
	nodes, err := inventory.Decode[*corev1.Node](s.objects, inventory.Nodes)
	if err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return !n.Spec.Unschedulable })
	if len(rest) == 0 {
		return nil, nil
	}
	s.suitableFirst(rest)
	best, err := s.uncordon(ctx, rest)
	last := s.decided + mostCordons
	var needed []*corev1.Node
	for best != nil && err == nil && len(rest) > 0 && s.decided < last {
		// Find the shortest prefix of rest that helps together with the nodes in needed. The last
		// node of that prefix is also needed. A binary search is possible, because further nodes
		// never remove room.
		n := sort.Search(len(rest), func(n int) bool {
			if err != nil || s.decided >= last || n+len(needed) == 0 {
				return false
			}
			var found *Remedy
			if found, err = s.uncordon(ctx, slices.Concat(needed, rest[:n])); found != nil {
				best = found
			}
			return found != nil
		})
		if n == 0 {
			break
		}
		needed, rest = append(needed, rest[n-1]), rest[:n-1]
	}
	if best != nil && s.decided >= last {
		best.Change += ", some of which may not be needed"
	}
	return listOf(best, err)
}

// uncordon makes a decision with the given nodes uncordoned.
func (s *search) uncordon(ctx context.Context, nodes []*corev1.Node) (*Remedy, error) {
	changes, names := make([]inventory.Change, len(nodes)), make([]string, len(nodes))
	for i, node := range nodes {
		node = node.DeepCopy()
		node.Spec.Unschedulable = false
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
		changes[i], names[i] = inventory.Change{Resource: inventory.Nodes, Object: node}, node.Name
	}
	slices.Sort(names)
	objects, err := s.objects.With(changes...)
	if err != nil {
		return nil, err
	}
	return s.try(ctx, Uncordon, fmt.Sprintf("uncordon %v", names), objects)
}

// nodes looks for a number of new nodes that would give the workload room. The new nodes are copies
// of one existing node. nodes returns the kind of node that needs the fewest copies.
func (s *search) nodes(ctx context.Context) ([]Remedy, error) {
	nodes, err := inventory.Decode[*corev1.Node](s.objects, inventory.Nodes)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return n.Spec.Unschedulable })
	slices.SortStableFunc(nodes, func(a, b *corev1.Node) int {
		return cmp.Compare(a.Status.Allocatable.Cpu().MilliValue(), b.Status.Allocatable.Cpu().MilliValue())
	})
	if suitable := s.suitableFirst(nodes); suitable > 0 {
		nodes = nodes[:suitable]
	}
	// Try at most mostKinds kinds of nodes, the smallest first. Each kind takes several decisions.
	const mostKinds = 5
	var kinds []*corev1.Node
	for _, node := range nodes {
		if len(kinds) < mostKinds && !slices.ContainsFunc(kinds, func(k *corev1.Node) bool { return sameKind(k, node) }) {
			kinds = append(kinds, node)
		}
	}
	var best *Remedy
	fewest := len(s.pods)
	for _, kind := range kinds {
		found, err := s.smallest(fewest, func(n int) (*Remedy, error) {
			objects, err := s.objects.With(copies(kind, n)...)
			if err != nil {
				return nil, err
			}
			found, err := s.try(ctx, AddNodes, fmt.Sprintf("add %s like %s", count(n, "node"), kind.Name), objects)
			if found != nil {
				fewest = min(fewest, n-1)
			}
			return found, err
		})
		if err != nil {
			return nil, err
		}
		if found != nil {
			best = found
		}
	}
	return listOf(best, nil)
}

// suitableFirst moves the nodes that could run one of the pods, if they were empty, to the front.
// It returns the number of these nodes. The other nodes stay in the list: a profile may ignore some
// constraints, such as a resource that an extender manages.
func (s *search) suitableFirst(nodes []*corev1.Node) int {
	var pods []*corev1.Pod
	for _, pod := range s.pods {
		if !slices.ContainsFunc(pods, func(other *corev1.Pod) bool { return asksTheSame(pod, other) }) {
			pods = append(pods, pod)
		}
	}
	var suitable, others []*corev1.Node
	for _, node := range nodes {
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return suits(node, pod) }) {
			suitable = append(suitable, node)
		} else {
			others = append(others, node)
		}
	}
	copy(nodes, slices.Concat(suitable, others))
	return len(suitable)
}

// asksTheSame reports whether two pods have equal requests, tolerations, node selectors and
// affinity.
func asksTheSame(a, b *corev1.Pod) bool {
	same := equality.Semantic.DeepEqual
	return same(requestsOf(a), requestsOf(b)) && same(a.Spec.Tolerations, b.Spec.Tolerations) &&
		same(a.Spec.NodeSelector, b.Spec.NodeSelector) && same(a.Spec.Affinity, b.Spec.Affinity)
}

// suits reports whether a node could run a pod if the node were empty and not cordoned. It compares
// requests, labels and taints.
func suits(node *corev1.Node, pod *corev1.Pod) bool {
	for name, asked := range requestsOf(pod) {
		if has := node.Status.Allocatable[name]; asked.Cmp(has) > 0 {
			return false
		}
	}
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !matches {
		return false
	}
	_, repelled := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable
	}, true)
	return !repelled
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// sameKind reports whether two nodes have equal allocatable resources, taints and labels. It
// ignores the hostname label.
func sameKind(a, b *corev1.Node) bool {
	if len(a.Status.Allocatable) != len(b.Status.Allocatable) || len(a.Spec.Taints) != len(b.Spec.Taints) {
		return false
	}
	for name, quantity := range a.Status.Allocatable {
		if other, ok := b.Status.Allocatable[name]; !ok || quantity.Cmp(other) != 0 {
			return false
		}
	}
	for _, taint := range a.Spec.Taints {
		if !slices.ContainsFunc(b.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) && t.Value == taint.Value }) {
			return false
		}
	}
	return hasLabels(a, b) && hasLabels(b, a)
}

// hasLabels reports whether a node has all labels of another node. It ignores the hostname label.
func hasLabels(node, of *corev1.Node) bool {
	for name, value := range of.Labels {
		if has, ok := node.Labels[name]; name != corev1.LabelHostname && (!ok || has != value) {
			return false
		}
	}
	return true
}

// copies returns n new nodes that are like the given node, without pods.
func copies(like *corev1.Node, n int) []inventory.Change {
	out := make([]inventory.Change, n)
	for i := range out {
		node := like.DeepCopy()
		node.Name = fmt.Sprintf("%s-added-%d", like.Name, i+1)
		node.UID = types.UID("added:" + node.Name)
		if node.Labels != nil {
			node.Labels[corev1.LabelHostname] = node.Name
		}
		out[i] = inventory.Change{Resource: inventory.Nodes, Object: node}
	}
	return out
}
