package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// oracle answers the core with the profile's Filter plugins. Its trial state is a copy of those NodeInfos
// that the core changes, and one cycle state for each class, kept up to date by the plugins' PreFilter
// extensions. Classes for which only room matters need neither.
type oracle struct {
	ctx     context.Context
	logger  klog.Logger
	handle  framework.Framework
	view    *view
	classes []oracleClass
	// anyStateful is false where no class needs the trial state; then none is kept.
	anyStateful bool
	trial       map[int]fwk.NodeInfo
	// aversions are what classes of the gang mind about each other and no filter would see.
	aversions []aversion
	// spread is the plugin PodTopologySpread; nil where the profile lacks it.
	spread fwk.PreFilterPlugin
	// err is the first error of a plugin; the decision is worthless then.
	err error
}

// oracleClass is one class as the filters see it.
type oracleClass struct {
	pods     []fwk.PodInfo
	state    fwk.CycleState
	stateful bool
	// static are the filters that look only at the pod and the node object.
	static []fwk.FilterPlugin
	// refused is set where PreFilter rejects the class on every node.
	refused string
	// only are the nodes that PreFilter confines the class to, nil for all.
	only sets.Set[string]
	// barred says why extenders keep the class from nodes, by name.
	barred map[string]string
	// seated are the members placed so far, in order.
	seated []fwk.PodInfo
	// spreads is true where topology spread constraints bind the class; stale, where their counts are to be
	// taken anew from the trial state.
	spreads, stale bool
}

var _ core.Oracle = (*oracle)(nil)

// newOracle runs PreFilter for one member of each class.
func newOracle(ctx context.Context, handle framework.Framework, v *view, classes []class, asker owner) (*oracle, error) {
	o := &oracle{
		ctx: ctx, logger: klog.FromContext(ctx), handle: handle, view: v,
		classes: make([]oracleClass, len(classes)),
		trial:   make(map[int]fwk.NodeInfo),
		spread:  preFilterOf(handle, names.PodTopologySpread),
	}
	for i := range classes {
		oc := &o.classes[i]
		oc.pods = slices.Clone(classes[i].pods)
		oc.state = framework.NewCycleState()
		oc.state.Write(planningKey, planningMark{})
		result, status, _ := handle.RunPreFilterPlugins(ctx, oc.state, oc.pods[0].GetPod())
		switch {
		case status.Code() == fwk.UnschedulableAndUnresolvable:
			oc.refused = status.Message()
			continue
		case !status.IsSuccess() && !status.IsRejected():
			return nil, fmt.Errorf("run PreFilter for pod %s: %w", klog.KObj(oc.pods[0].GetPod()), status.AsError())
		}
		if !result.AllNodes() {
			oc.only = result.NodeNames
		}
		oc.stateful = !status.IsSuccess()
		oc.sortFilters(handle)
		oc.spreads = o.spread != nil && !oc.state.GetSkipFilterPlugins().Has(names.PodTopologySpread)
		o.anyStateful = o.anyStateful || oc.stateful
		if err := o.askFilters(oc, asker); err != nil {
			return nil, err
		}
	}
	o.findAversions()
	if o.anyStateful {
		o.seatHeld()
	}
	return o, o.err
}

// seatHeld adds the pods that the preemptor has to respect to the trial state.
func (o *oracle) seatHeld() {
	if len(o.view.held) == 0 {
		return
	}
	for n := range o.view.snapshot.Nodes {
		for _, pi := range o.view.held[o.view.snapshot.Nodes[n].Name] {
			o.add(n, pi)
		}
	}
}

// preFilterOf finds a plugin of the profile by its name; nil where there is none. Plugins that register for
// events are the ones that a framework shows.
func preFilterOf(handle framework.Framework, name string) fwk.PreFilterPlugin {
	for _, ext := range handle.EnqueueExtensions() {
		if pl, ok := ext.(fwk.PreFilterPlugin); ok && pl.Name() == name {
			return pl
		}
	}
	return nil
}

// sortFilters tells the filters apart that are not skipped for the class: static ones look only at the pod and
// the node object, and all but the one for resources look at the pods of a node beyond the room they occupy.
// Filters that we do not know are taken to do so.
func (oc *oracleClass) sortFilters(handle framework.Framework) {
	skipped := oc.state.GetSkipFilterPlugins()
	static := make(map[string]fwk.FilterPlugin)
	for _, ext := range handle.EnqueueExtensions() {
		if pl, ok := ext.(fwk.FilterPlugin); ok && isStaticFilter(pl.Name()) {
			static[pl.Name()] = pl
		}
	}
	for _, pl := range handle.ListPlugins().Filter.Enabled {
		filter, isStatic := static[pl.Name]
		switch {
		case skipped.Has(pl.Name) || pl.Name == names.NodeResourcesFit:
		case isStatic:
			oc.static = append(oc.static, filter)
		default:
			oc.stateful = true
		}
	}
}

// isStaticFilter names the in-tree filters that look only at the pod and the node object.
func isStaticFilter(name string) bool {
	switch name {
	case names.NodeName, names.NodeUnschedulable, names.NodeAffinity, names.TaintToleration,
		names.NodeDeclaredFeatures:
		return true
	default:
		return false
	}
}

// Admits asks the filters that look only at the pod and the node, so that none that eviction can satisfy hides
// one that it cannot.
func (o *oracle) Admits(c, n int) string {
	oc := &o.classes[c]
	if oc.refused != "" {
		return oc.refused
	}
	info := o.node(n)
	if oc.only != nil && !oc.only.Has(info.Node().Name) {
		return "node(s) didn't match what the pod is confined to"
	}
	if why := oc.barred[info.Node().Name]; why != "" {
		return why
	}
	for _, pl := range oc.static {
		status := pl.Filter(o.ctx, oc.state, oc.pods[0].GetPod(), info)
		switch {
		case status.IsSuccess():
		case status.IsRejected():
			return status.Message()
		default:
			o.fail(status.AsError())
			return status.Message()
		}
	}
	return ""
}

// Stateful reports whether room is not all that matters to the class.
func (o *oracle) Stateful(c int) bool { return o.classes[c].stateful }

// Fits runs the filters on the node in the trial state.
func (o *oracle) Fits(c, n int) bool {
	oc := &o.classes[c]
	info, ok := o.trial[n]
	if !ok {
		info = o.node(n)
	}
	if o.isMinded(c, info) {
		return false
	}
	if oc.spreads && oc.stale {
		o.countSpread(oc)
	}
	status := o.handle.RunFilterPlugins(o.ctx, oc.state, oc.pods[0].GetPod(), info)
	if !status.IsSuccess() && !status.IsRejected() {
		o.fail(status.AsError())
	}
	return status.IsSuccess()
}

// countSpread has PodTopologySpread count the pods of the trial state. Its own bookkeeping of added and
// removed pods is exact for one node only: it keeps the two smallest domains, not all.
func (o *oracle) countSpread(oc *oracleClass) {
	infos := make([]fwk.NodeInfo, 0, len(o.view.snapshot.Nodes))
	for n := range o.view.snapshot.Nodes {
		if info, ok := o.trial[n]; ok {
			infos = append(infos, info)
		} else if info := o.node(n); info != nil {
			infos = append(infos, info)
		}
	}
	_, status := o.spread.PreFilter(o.ctx, oc.state, oc.pods[0].GetPod(), infos)
	if !status.IsSuccess() {
		o.fail(status.AsError())
	}
	oc.stale = false
}

// RemoveUnit takes a unit's pods out of the trial state.
func (o *oracle) RemoveUnit(unit int) {
	pods := o.view.snapshot.Units[unit].Pods
	for i := range pods {
		o.remove(pods[i].Node, podOf(&pods[i]))
	}
}

// RestoreUnit puts a unit's pods back.
func (o *oracle) RestoreUnit(unit int) {
	pods := o.view.snapshot.Units[unit].Pods
	for i := range pods {
		o.add(pods[i].Node, podOf(&pods[i]))
	}
}

// RemoveLeaving takes a terminating pod out of the trial state.
func (o *oracle) RemoveLeaving(pod int) {
	lp := &o.view.snapshot.Leaving[pod]
	o.remove(lp.Node, podOf(lp))
}

// RestoreLeaving puts a terminating pod back.
func (o *oracle) RestoreLeaving(pod int) {
	lp := &o.view.snapshot.Leaving[pod]
	o.add(lp.Node, podOf(lp))
}

// Place adds the next member of the class to the node.
func (o *oracle) Place(c, n int) {
	if !o.anyStateful {
		return
	}
	oc := &o.classes[c]
	pod := oc.pods[len(oc.seated)].GetPod().DeepCopy()
	pod.Spec.NodeName = o.view.snapshot.Nodes[n].Name
	pi, err := framework.NewPodInfo(pod)
	if err != nil {
		o.fail(err)
		return
	}
	oc.seated = append(oc.seated, pi)
	o.add(n, pi)
	o.countAverse(c, o.node(n), 1)
}

// Unplace takes a member of the class off the node again.
func (o *oracle) Unplace(c, n int) {
	if !o.anyStateful {
		return
	}
	oc := &o.classes[c]
	name := o.view.snapshot.Nodes[n].Name
	for i := len(oc.seated) - 1; i >= 0; i-- {
		pi := oc.seated[i]
		if pi.GetPod().Spec.NodeName != name {
			continue
		}
		o.remove(n, pi)
		o.countAverse(c, o.node(n), -1)
		// Whoever is placed next takes the pod that this one was, so the seats stay distinct.
		last := len(oc.seated) - 1
		oc.seated[i] = oc.seated[last]
		oc.seated = oc.seated[:last]
		for j := range oc.pods {
			if oc.pods[j].GetPod().UID == pi.GetPod().UID {
				oc.pods[j], oc.pods[last] = oc.pods[last], oc.pods[j]
				break
			}
		}
		return
	}
	o.fail(fmt.Errorf("no member of class %d stands on node %s", c, name))
}

func (o *oracle) add(n int, pi fwk.PodInfo) {
	if !o.anyStateful {
		return
	}
	info := o.trialNode(n)
	info.AddPodInfo(pi)
	o.extend(func(oc *oracleClass, own *corev1.Pod) *fwk.Status {
		return o.handle.RunPreFilterExtensionAddPod(o.ctx, oc.state, own, pi, info)
	})
}

func (o *oracle) remove(n int, pi fwk.PodInfo) {
	if !o.anyStateful {
		return
	}
	info := o.trialNode(n)
	if err := info.RemovePod(o.logger, pi.GetPod()); err != nil {
		o.fail(err)
		return
	}
	keepPorts(info, pi)
	o.extend(func(oc *oracleClass, own *corev1.Pod) *fwk.Status {
		return o.handle.RunPreFilterExtensionRemovePod(o.ctx, oc.state, own, pi, info)
	})
}

// keepPorts marks host ports as used that were dropped with a pod although others on the node have them too:
// a NodeInfo expects no two pods with the same port, and the trial has them while it looks for a way out.
func keepPorts(info fwk.NodeInfo, gone fwk.PodInfo) {
	if len(hostPorts(gone)) == 0 {
		return
	}
	for _, pi := range info.GetPods() {
		for _, port := range hostPorts(pi) {
			info.GetUsedPorts().Add(port.HostIP, string(port.Protocol), port.HostPort)
		}
	}
}

func hostPorts(pi fwk.PodInfo) []corev1.ContainerPort { return schedutil.GetHostPorts(pi.GetPod()) }

// extend tells every class that cares about other pods of a change.
func (o *oracle) extend(f func(oc *oracleClass, own *corev1.Pod) *fwk.Status) {
	for i := range o.classes {
		if oc := &o.classes[i]; oc.stateful {
			oc.stale = true
			if status := f(oc, oc.pods[0].GetPod()); !status.IsSuccess() {
				o.fail(status.AsError())
			}
		}
	}
}

// node is a node as the snapshot has it.
func (o *oracle) node(n int) fwk.NodeInfo { return nodeOf(&o.view.snapshot.Nodes[n]) }

func (o *oracle) trialNode(n int) fwk.NodeInfo {
	info, ok := o.trial[n]
	if !ok {
		info = o.node(n).Snapshot()
		o.trial[n] = info
	}
	return info
}

func (o *oracle) fail(err error) { o.err = errors.Join(o.err, err) }
