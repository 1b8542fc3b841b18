package filters

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// crossTerm is a required anti-affinity term of one class that another class of the same gang matches. The filter
// for that is skipped for the other class if it has no terms of its own and no running pod has a term that it matches,
// so the members of the class with the term are counted here.
type crossTerm struct {
	// holder is byPromised for pods that have been promised their node.
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

// byPromised stands in a crossTerm for the pods to which the preemptor has to leave room: the filter passes over those as well.
const byPromised = -1

// findPromisedTerms looks for classes that match an anti-affinity term of a pod to which the preemptor has to leave room.
func (o *Oracle) findPromisedTerms() {
	type pair struct {
		class int
		key   string
	}
	known := make(map[pair]map[string]int)
	o.eachPromised(func(n int, pi fwk.PodInfo) {
		info := o.view.NodeInfo(n)
		for _, term := range pi.GetRequiredAntiAffinityTerms() {
			value, ok := "", false
			if info != nil {
				value, ok = info.Node().Labels[term.TopologyKey]
			}
			for c := range o.classes {
				oc := &o.classes[c]
				if !ok || oc.rejected != "" || !oc.state.GetSkipFilterPlugins().Has(names.InterPodAffinity) ||
					!term.Matches(oc.pods[0].GetPod(), o.labelsOf(oc.pods[0].GetPod().Namespace)) {
					continue
				}
				p := pair{c, term.TopologyKey}
				if known[p] == nil {
					known[p] = make(map[string]int)
					o.crossTerms = append(o.crossTerms, crossTerm{holder: byPromised, matched: c, topologyKey: p.key, members: known[p]})
					oc.stateful, o.podSensitive = true, true
				}
				known[p][value]++
			}
		}
	})
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
