package scheduler

import (
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// aversion is a required anti-affinity term of one class that another class of the same gang matches. The
// filter for that is skipped for the other class if it has no terms of its own and nobody who runs minds it,
// so what the gang's own members mind is counted here.
type aversion struct {
	minding, minded int
	topologyKey     string
	// members counts the minding class's members by the value of the topology key.
	members map[string]int
}

// findAversions looks for classes that another class of the gang minds.
func (o *oracle) findAversions() {
	if len(o.classes) < 2 {
		return
	}
	for k := range o.classes {
		if o.classes[k].refused != "" {
			continue
		}
		for _, term := range o.classes[k].pods[0].GetRequiredAntiAffinityTerms() {
			for c := range o.classes {
				oc := &o.classes[c]
				if c == k || oc.refused != "" || !oc.state.GetSkipFilterPlugins().Has(names.InterPodAffinity) {
					continue
				}
				if term.Matches(oc.pods[0].GetPod(), o.namespaceLabels(oc)) {
					o.aversions = append(o.aversions, aversion{minding: k, minded: c, topologyKey: term.TopologyKey, members: make(map[string]int)})
					oc.stateful, o.anyStateful = true, true
				}
			}
		}
	}
}

// namespaceLabels are those of the namespace that the gang is in; none where it cannot be read.
func (o *oracle) namespaceLabels(oc *oracleClass) labels.Set {
	ns, err := o.handle.SharedInformerFactory().Core().V1().Namespaces().Lister().Get(oc.pods[0].GetPod().Namespace)
	if err != nil {
		return nil
	}
	return ns.Labels
}

// countAverse follows a member of a class onto a node (by 1) or off it (by -1).
func (o *oracle) countAverse(class int, info fwk.NodeInfo, by int) {
	for i := range o.aversions {
		a := &o.aversions[i]
		if value, ok := info.Node().Labels[a.topologyKey]; ok && a.minding == class {
			a.members[value] += by
		}
	}
}

// isMinded reports whether a member of the gang stands where it does not want this class near.
func (o *oracle) isMinded(class int, info fwk.NodeInfo) bool {
	for i := range o.aversions {
		a := &o.aversions[i]
		if value, ok := info.Node().Labels[a.topologyKey]; ok && a.minded == class && a.members[value] > 0 {
			return true
		}
	}
	return false
}
