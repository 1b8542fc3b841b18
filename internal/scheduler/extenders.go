package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// extenderRounds bounds how often a search starts over because an extender refuses a node of its result.
const extenderRounds = 8

// askFilters asks the extenders that filter which nodes a class cannot have. What an extender calls resolvable
// is left to preemption for a single pod, which has failed on every node already; a gang's plan is confirmed
// by the very same extenders, so there it counts as well.
func (o *oracle) askFilters(oc *oracleClass, asker owner) error {
	pod := oc.pods[0].GetPod()
	for _, ext := range o.handle.Extenders() {
		if !ext.IsFilter() || !ext.IsInterested(pod) {
			continue
		}
		infos, err := o.handle.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return fmt.Errorf("list nodes of the snapshot: %w", err)
		}
		_, failed, unresolvable, err := ext.Filter(pod, infos)
		if err != nil {
			if ext.IsIgnorable() {
				o.logger.Info("Left out an extender that could not be asked", "extender", ext.Name(), "err", err)
				continue
			}
			return fmt.Errorf("ask extender %s: %w", ext.Name(), err)
		}
		for node, why := range unresolvable {
			oc.bar(node, why)
		}
		if asker.gang {
			for node, why := range failed {
				oc.bar(node, why)
			}
		}
	}
	return nil
}

// bar keeps a class from a node.
func (oc *oracleClass) bar(node, why string) {
	if oc.barred == nil {
		oc.barred = make(map[string]string)
	}
	if why == "" {
		why = "node(s) refused by an extender"
	}
	oc.barred[node] = why
}

// askPreemption shows a decision to the extenders that take part in preemption. It reports whether one of them
// refused, and bars the nodes that it does not want. An extender that would take other victims refuses as well:
// units go whole, and nobody goes whom the policy has not judged.
func (o *oracle) askPreemption(d *core.Decision) (refused bool, err error) {
	if d.Outcome != core.Preempts || len(o.handle.Extenders()) == 0 {
		return false, nil
	}
	victims := o.victimsByNode(d)
	nodes := placements(d)
	for i := range o.classes {
		oc := &o.classes[i]
		pod := oc.pods[0].GetPod()
		asked := make(map[string]*extenderv1.Victims)
		for _, pi := range oc.pods {
			if node := nodes[pi.GetPod().UID]; node != "" && victims[node] != nil {
				asked[node] = victims[node]
			}
		}
		for _, ext := range o.handle.Extenders() {
			if len(asked) == 0 || !ext.SupportsPreemption() || !ext.IsInterested(pod) {
				continue
			}
			kept, err := ext.ProcessPreemption(pod, asked, o.handle.SnapshotSharedLister().NodeInfos())
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

// victimsByNode are the victims of a decision in the extenders' form.
func (o *oracle) victimsByNode(d *core.Decision) map[string]*extenderv1.Victims {
	wanted := make(map[string]sets.Set[types.UID])
	for i := range d.Victims {
		for _, pod := range d.Victims[i].Pods {
			if wanted[pod.Node] == nil {
				wanted[pod.Node] = sets.New[types.UID]()
			}
			wanted[pod.Node].Insert(types.UID(pod.UID))
		}
	}
	out := make(map[string]*extenderv1.Victims, len(wanted))
	for node, uids := range wanted {
		out[node] = &extenderv1.Victims{Pods: o.view.podsByUID(node, uids)}
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

// ignoresResource reports whether the profile's NodeResourcesFit leaves a resource to others: an extender that
// manages it, or nobody. The plugin does not show its arguments, so it is tried on a node without the resource.
func (p *Plugin) ignoresResource(name corev1.ResourceName) bool {
	if ignored, ok := p.ignored[name]; ok {
		return ignored
	}
	if p.ignored == nil || len(p.ignored) > mostIgnored {
		p.ignored = make(map[corev1.ResourceName]bool)
	}
	p.ignored[name] = p.fitsWithout(name)
	return p.ignored[name]
}

// mostIgnored bounds how many resources are remembered.
const mostIgnored = 1024

func (p *Plugin) fitsWithout(name corev1.ResourceName) bool {
	fit, ok := preFilterOf(p.handle, names.NodeResourcesFit).(fwk.FilterPlugin)
	if !ok {
		return false
	}
	ctx := klog.NewContext(context.Background(), klog.Background())
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}},
	}}}}
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	state := framework.NewCycleState()
	if _, status := preFilterOf(p.handle, names.NodeResourcesFit).PreFilter(ctx, state, pod, nil); !status.IsSuccess() {
		return status.IsSkip()
	}
	return fit.Filter(ctx, state, pod, info).IsSuccess()
}
