package filters

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// spreadRule is one hard topology spread constraint of a class, with the number of matching pods
// per domain in the simulated state. It replaces the profile's filter. That filter is slow here:
// its own updates are exact only for one node, so it would have to count all pods after each
// change.
type spreadRule struct {
	selector   labels.Selector
	namespace  string
	maxSkew    int
	minDomains int
	// self is 1 if the class's own pods match the constraint, otherwise 0.
	self int
	// domains has the domain of each node; -1 for a node without the topology key. counted is like
	// domains, but is -1 also for nodes that the constraint does not include.
	domains, counted []int32
	// counts has the number of matching pods in each domain. eligible is true for the domains that
	// have a node in the field counted. number is the number of eligible domains.
	counts   []int
	eligible []bool
	number   int
	// least is the smallest number of matching pods in an eligible domain. having[k] is the number
	// of eligible domains with k matching pods.
	least  int
	having map[int]int
}

var _ core.Spread = (*spreadRule)(nil)

// spreadRules returns the rules for a pod's own hard constraints. It returns none if the profile's
// default constraints apply.
func (o *Oracle) spreadRules(pod *corev1.Pod) ([]*spreadRule, error) {
	var rules []*spreadRule
	var keys []string
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := spreadSelector(c, pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: topology spread over %s: %w", klog.KObj(pod), c.TopologyKey, err)
		}
		r := &spreadRule{
			selector: selector, namespace: pod.Namespace, maxSkew: int(c.MaxSkew), minDomains: int(ptr.Deref(c.MinDomains, 1)),
			domains: o.domainsOf(c.TopologyKey), having: make(map[int]int),
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			r.self = 1
		}
		rules, keys = append(rules, r), append(keys, c.TopologyKey)
	}
	at := 0
	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; c.WhenUnsatisfiable == corev1.DoNotSchedule {
			o.countPods(rules[at], c, pod, keys)
			at++
		}
	}
	return rules, nil
}

// spreadSelector returns the label selector of a constraint, including its matchLabelKeys.
func spreadSelector(c *corev1.TopologySpreadConstraint, pod *corev1.Pod) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("label selector: %w", err)
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.MatchLabelKeysInPodTopologySpread) {
		return selector, nil
	}
	own := make(labels.Set)
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			own[key] = value
		}
	}
	requirements, selectable := selector.Requirements()
	if len(own) == 0 || !selectable {
		return selector, nil
	}
	return labels.SelectorFromSet(own).Add(requirements...), nil
}

// countPods counts the matching pods of the snapshot. It counts only on nodes that have all
// topology keys and that the constraint includes.
func (o *Oracle) countPods(r *spreadRule, c *corev1.TopologySpreadConstraint, pod *corev1.Pod, keys []string) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	comparison := utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
	includes := func(node *corev1.Node) bool {
		for _, key := range keys {
			if _, ok := node.Labels[key]; !ok {
				return false
			}
		}
		if ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor {
			// The in-tree filter also treats an invalid term as a term that does not match.
			if match, _ := affinity.Match(node); !match {
				return false
			}
		}
		if ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) != corev1.NodeInclusionPolicyHonor {
			return true
		}
		_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(o.logger, node.Spec.Taints, pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc(), comparison)
		return !untolerated
	}
	count := int(slices.Max(append([]int32{-1}, r.domains...))) + 1
	r.counted, r.counts, r.eligible = make([]int32, len(r.domains)), make([]int, count), make([]bool, count)
	for n, d := range r.domains {
		r.counted[n] = -1
		info := o.view.NodeInfo(n)
		if d < 0 || info == nil || !includes(info.Node()) {
			continue
		}
		r.counted[n] = d
		if !r.eligible[d] {
			r.eligible[d] = true
			r.number++
			r.having[0]++
		}
	}
	for n, d := range r.counted {
		if d < 0 {
			continue
		}
		for _, pi := range o.view.NodeInfo(n).GetPods() {
			r.follow(pi.GetPod(), n, 1)
		}
	}
}

// selects reports whether the constraint counts a pod.
func (r *spreadRule) selects(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Namespace == r.namespace && !r.selector.Empty() && r.selector.Matches(labels.Set(pod.Labels))
}

// follow updates the counts after a pod is added to a node (by is 1) or removed from it (by is -1).
func (r *spreadRule) follow(pod *corev1.Pod, node, by int) {
	d := r.counted[node]
	if d < 0 || !r.selects(pod) {
		return
	}
	before := r.counts[d]
	r.counts[d] += by
	if r.having[before]--; r.having[before] == 0 {
		delete(r.having, before)
	}
	r.having[before+by]++
	switch {
	case before+by < r.least:
		r.least = before + by
	case before == r.least && r.having[before] == 0:
		r.least = before + by
	}
}

// Count returns the number of pods in a domain.
func (r *spreadRule) Count(domain int32) int { return r.counts[domain] }

// Takes reports whether the maximum skew permits one more member in a domain.
func (r *spreadRule) Takes(domain int32) bool {
	least := r.least
	switch {
	case r.number < r.minDomains:
		least = 0
	case r.number == 0:
		least = math.MaxInt32
	}
	return r.counts[domain]+r.self-least <= r.maxSkew
}

// domainsOf returns the domain number of each node for a topology key; -1 for a node without the
// key.
func (o *Oracle) domainsOf(key string) []int32 {
	if known, ok := o.domains[key]; ok {
		return known
	}
	numbers := make(map[string]int32)
	domains := make([]int32, len(o.view.Cluster.Nodes))
	for n := range domains {
		domains[n] = -1
		info := o.view.NodeInfo(n)
		if info == nil {
			continue
		}
		value, ok := info.Node().Labels[key]
		if !ok {
			continue
		}
		number, known := numbers[value]
		if !known {
			number = int32(len(numbers))
			numbers[value] = number
		}
		domains[n] = number
	}
	o.domains[key] = domains
	return domains
}

// Topologies returns the rules of a class about domains of nodes: topology spread constraints, and
// domains that the class must share with other classes.
func (o *Oracle) Topologies(c int) []core.Topology {
	oc := &o.classes[c]
	var out []core.Topology
	for _, r := range oc.spreads {
		out = append(out, core.Topology{Domains: r.domains, Spread: r})
	}
	if oc.rejected != "" {
		return out
	}
	for _, s := range oc.shared {
		out = append(out, core.Topology{Domains: o.eachNode(), With: s.classes})
	}
	terms := oc.pods[0].GetRequiredAffinityTerms()
	if with := o.matchingAll(terms); len(with) > 0 {
		for i := range terms {
			out = append(out, core.Topology{Domains: o.domainsOf(terms[i].TopologyKey), With: with})
		}
	}
	return out
}

// matchingAll returns the classes whose pods match every one of the affinity terms.
func (o *Oracle) matchingAll(terms []fwk.AffinityTerm) []int {
	if len(terms) == 0 {
		return nil
	}
	var with []int
	for c := range o.classes {
		pod := o.classes[c].pods[0].GetPod()
		if !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(pod, o.labelsOf(pod.Namespace)) }) {
			with = append(with, c)
		}
	}
	return with
}
