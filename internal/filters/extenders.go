package filters

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// extenderRounds is the maximum number of decisions for one preemptor. If an extender rejects the
// victims of a decision, the Oracle decides again.
const extenderRounds = 8

// Decide returns the core's decision for the View. If an extender rejects the victims, it decides
// again without their nodes. It also returns the victims' pods, node by node. It returns an error
// if a plugin or an extender fails, if the input is invalid, or if extenders reject every result.
func (o *Oracle) Decide() (core.Decision, []*corev1.Pod, error) {
	defer o.unclaimPromised()
	for range extenderRounds {
		d, err := core.Decide(o.view.Cluster, o.preemptor, o.asked())
		if err := errors.Join(err, o.failure()); err != nil {
			return core.Decision{}, nil, err
		}
		victims := o.view.Victims(&d)
		refused, err := o.askPreemption(&d, victims)
		if err != nil {
			return core.Decision{}, nil, err
		}
		if !refused {
			return d, victims, nil
		}
	}
	return core.Decision{}, nil, fmt.Errorf("extenders refused the victims of %d placements in a row", extenderRounds)
}

// askFilters calls the extenders that filter, and excludes the nodes that they reject for a class.
// Rejections that evictions cannot resolve always exclude the node. All other rejections exclude
// the node only for a gang, because the extenders would reject the gang's plan. For a single pod,
// askFilters ignores them: the pod has already failed on every node, and evictions may change this.
func (o *Oracle) askFilters(oc *oracleClass) error {
	pod := oc.pods[0].GetPod()
	for _, ext := range o.profile.Extenders() {
		if !ext.IsFilter() || !ext.IsInterested(pod) {
			continue
		}
		infos, err := o.profile.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return fmt.Errorf("list nodes of the snapshot: %w", err)
		}
		_, failed, unresolvable, err := ext.Filter(pod, infos)
		if err != nil {
			if ext.IsIgnorable() {
				o.logger.Info("Left out an extender that could not be asked", "extender", ext.Name(), "reason", err)
				continue
			}
			return fmt.Errorf("ask extender %s: %w", ext.Name(), err)
		}
		for node, why := range unresolvable {
			oc.bar(node, why)
		}
		if o.preemptor.Gang {
			for node, why := range failed {
				oc.bar(node, why)
			}
		}
	}
	return nil
}

// bar excludes a node for a class. why is the reason for messages.
func (oc *oracleClass) bar(node, why string) {
	if oc.barred == nil {
		oc.barred = make(map[string]string)
	}
	if why == "" {
		why = "node(s) refused by an extender"
	}
	oc.barred[node] = why
}

// askPreemption sends a decision's victims to the extenders that take part in preemption. It
// returns true if an extender rejects victims, and excludes the rejected nodes. If an extender
// selects other victims, this counts as a rejection: units are evicted only whole, and only if the
// policy permits it.
func (o *Oracle) askPreemption(d *core.Decision, pods []*corev1.Pod) (refused bool, err error) {
	if len(pods) == 0 || len(o.profile.Extenders()) == 0 {
		return false, nil
	}
	victims := victimsByNode(pods)
	nodes := snapshot.Placements(d)
	for i := range o.classes {
		oc := &o.classes[i]
		pod := oc.pods[0].GetPod()
		asked := make(map[string]*extenderv1.Victims)
		for _, pi := range oc.pods {
			if node := nodes[pi.GetPod().UID]; node != "" && victims[node] != nil {
				asked[node] = victims[node]
			}
		}
		for _, ext := range o.profile.Extenders() {
			if len(asked) == 0 || !ext.SupportsPreemption() || !ext.IsInterested(pod) {
				continue
			}
			kept, err := ext.ProcessPreemption(pod, asked, o.profile.SnapshotSharedLister().NodeInfos())
			if err != nil && ext.IsIgnorable() {
				continue
			}
			if err != nil {
				return false, fmt.Errorf("ask extender %s about victims: %w", ext.Name(), err)
			}
			for node, want := range asked {
				if !sameVictims(want, kept[node]) {
					oc.bar(node, "node(s) whose victims extender "+ext.Name()+" refused")
					refused = true
				}
			}
		}
	}
	return refused, nil
}

// victimsByNode converts victims to the type of the extenders' API, by node name.
func victimsByNode(pods []*corev1.Pod) map[string]*extenderv1.Victims {
	out := make(map[string]*extenderv1.Victims)
	for _, pod := range pods {
		node := pod.Spec.NodeName
		if out[node] == nil {
			out[node] = &extenderv1.Victims{}
		}
		out[node].Pods = append(out[node].Pods, pod)
	}
	return out
}

func sameVictims(want, got *extenderv1.Victims) bool {
	if got == nil || len(got.Pods) != len(want.Pods) {
		return false
	}
	uids := sets.New[types.UID]()
	for _, pod := range want.Pods {
		uids.Insert(pod.UID)
	}
	for _, pod := range got.Pods {
		uids.Delete(pod.UID)
	}
	return uids.Len() == 0
}
