package filters

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// crossTerm is a required anti-affinity term of one class that another class of the same gang matches. The filter
// for that is skipped for the other class if it has no terms of its own and no running pod has a term that it matches,
// so the members of the class with the term are counted here.
type crossTerm struct {
	holder, matched int
	topologyKey     string
	// members counts the holder's members by the value of the topology key.
	members map[string]int
}

// findCrossTerms looks for classes that match an anti-affinity term of another class.
func (o *Oracle) findCrossTerms() {
	if len(o.classes) < 2 {
		return
	}
	for k := range o.classes {
		if o.classes[k].rejected != "" {
			continue
		}
		for _, term := range o.classes[k].pods[0].GetRequiredAntiAffinityTerms() {
			for c := range o.classes {
				oc := &o.classes[c]
				if c == k || oc.rejected != "" || !oc.state.GetSkipFilterPlugins().Has(names.InterPodAffinity) {
					continue
				}
				if term.Matches(oc.pods[0].GetPod(), o.labelsOf(oc.pods[0].GetPod().Namespace)) {
					o.crossTerms = append(o.crossTerms, crossTerm{holder: k, matched: c, topologyKey: term.TopologyKey, members: make(map[string]int)})
					oc.stateful, o.podSensitive = true, true
				}
			}
		}
	}
}

// countCrossTerms follows a member of a class onto a node (by 1) or off it (by -1).
func (o *Oracle) countCrossTerms(class int, info fwk.NodeInfo, by int) {
	for i := range o.crossTerms {
		t := &o.crossTerms[i]
		if value, ok := info.Node().Labels[t.topologyKey]; ok && t.holder == class {
			t.members[value] += by
		}
	}
}

// violatesCrossTerm reports whether a class would come to a node that members of another class keep it from.
func (o *Oracle) violatesCrossTerm(class int, info fwk.NodeInfo) bool {
	for i := range o.crossTerms {
		t := &o.crossTerms[i]
		if value, ok := info.Node().Labels[t.topologyKey]; ok && t.matched == class && t.members[value] > 0 {
			return true
		}
	}
	return false
}
