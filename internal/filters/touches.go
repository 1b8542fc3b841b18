package filters

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// minds has the properties of other pods that affect the filters of a class, besides their room.
type minds struct {
	// everything is true if a filter is unknown, so that any property may matter.
	everything bool
	// affinity, ports and volumes are true if the filters for pod affinity, host ports and volumes
	// are enabled for the class.
	affinity, ports, volumes bool
}

// mind records the properties that affect the given filter.
func (m *minds) mind(filter string) {
	switch filter {
	case names.InterPodAffinity:
		m.affinity = true
	case names.NodePorts:
		m.ports = true
	case names.VolumeRestrictions, names.NodeVolumeLimits:
		m.volumes = true
	case names.PodTopologySpread, names.VolumeBinding, names.VolumeZone, names.DynamicResources:
		// Record nothing for the other filters. Topology spread has its own rules, and filters for
		// claims do not depend on evictions, because claims stay allocated.
	default:
		m.everything = true
	}
}

// touch is a cached result of Touches.
type touch uint8

const (
	untold touch = iota
	touches
	leavesAlone
)

// Touches reports whether any class depends on the pods of a unit by more than their room.
func (o *Oracle) Touches(unit int) bool {
	if !o.podSensitive {
		return false
	}
	t := &o.touching[unit]
	if *t == untold {
		*t = leavesAlone
		pods := o.view.Cluster.Units[unit].Pods
		for i := range pods {
			if o.matters(snapshot.PodInfo(&pods[i])) {
				*t = touches
				break
			}
		}
	}
	return *t == touches
}

var _ core.Reserver = (*Oracle)(nil)

// Reserved returns the room on a node that is reserved for other pods; nil for none.
func (o *Oracle) Reserved(node int) core.Amounts {
	return o.view.Reserved(o.view.Cluster.Nodes[node].Name)
}

// Related lists the terminating pods that any class depends on by more than their room, on any
// node.
func (o *Oracle) Related() []*corev1.Pod {
	if !o.podSensitive {
		return nil
	}
	var out []*corev1.Pod
	leaving := o.view.Cluster.Leaving
	for i := range leaving {
		if pi := snapshot.PodInfo(&leaving[i]); pi != nil && o.matters(pi) {
			out = append(out, pi.GetPod())
		}
	}
	return out
}

// matters reports whether any class depends on a pod by more than its room.
func (o *Oracle) matters(pi fwk.PodInfo) bool {
	for i := range o.classes {
		if oc := &o.classes[i]; oc.stateful && (oc.minds.everything || o.matterTo(oc, pi)) {
			return true
		}
	}
	return false
}

func (o *Oracle) matterTo(oc *oracleClass, pi fwk.PodInfo) bool {
	pod := pi.GetPod()
	for _, r := range oc.spreads {
		if r.selects(pod) {
			return true
		}
	}
	if oc.minds.ports && len(hostPorts(pi)) > 0 || oc.minds.volumes && len(queue.ConfiningVolumes(pod)) > 0 {
		return true
	}
	if !oc.minds.affinity {
		return false
	}
	own := oc.pods[0]
	for _, terms := range [...][]fwk.AffinityTerm{own.GetRequiredAffinityTerms(), own.GetRequiredAntiAffinityTerms()} {
		if o.anyMatches(terms, pod) {
			return true
		}
	}
	return o.anyMatches(pi.GetRequiredAntiAffinityTerms(), own.GetPod())
}

func (o *Oracle) anyMatches(terms []fwk.AffinityTerm, pod *corev1.Pod) bool {
	for i := range terms {
		if terms[i].Matches(pod, o.labelsOf(pod.Namespace)) {
			return true
		}
	}
	return false
}

// labelsOf returns the labels of a namespace; nil if the namespace is not found.
func (o *Oracle) labelsOf(namespace string) labels.Set {
	known, ok := o.namespaces[namespace]
	if !ok {
		if ns, err := o.profile.SharedInformerFactory().Core().V1().Namespaces().Lister().Get(namespace); err == nil {
			known = ns.Labels
		}
		o.namespaces[namespace] = known
	}
	return known
}
