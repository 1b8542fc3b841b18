package filters

import (
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// crossTerm is a required anti-affinity term of one class that matches another class of the same
// gang. For the matched class, the framework may skip the filter, because no running pod has the
// term. So the Oracle itself counts the placed members of the class with the term.
type crossTerm struct {
	// holder is the class with the term, or byPromised for pods with reservations. matched is the
	// class that the term matches.
	holder, matched int
	topologyKey     string
	// members maps each value of topologyKey to the number of the holder's placed members.
	members map[string]int
}

// findCrossTerms creates the crossTerms between classes.
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

// byPromised is the value of crossTerm.holder for terms of pods with reservations. The filter sees
// these pods only when they are on their nodes. Until then, the Oracle itself counts them.
const byPromised = -1

// findPromisedTerms creates the crossTerms of pods with reservations.
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

// countCrossTerms counts a member of a class that is added to a node or removed from it. The
// argument by is 1 for an added member and -1 for a removed one.
func (o *Oracle) countCrossTerms(class int, info fwk.NodeInfo, by int) {
	for i := range o.crossTerms {
		t := &o.crossTerms[i]
		if value, ok := info.Node().Labels[t.topologyKey]; ok && t.holder == class {
			t.members[value] += by
		}
	}
}

// violatesCrossTerm reports whether a crossTerm that matches a class excludes the class from a
// node.
func (o *Oracle) violatesCrossTerm(class int, info fwk.NodeInfo) bool {
	for i := range o.crossTerms {
		t := &o.crossTerms[i]
		if value, ok := info.Node().Labels[t.topologyKey]; ok && t.matched == class && t.members[value] > 0 {
			return true
		}
	}
	return false
}
