package filters

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// simulationKey marks the cycle states on which an Oracle runs PreFilter plugins.
const simulationKey fwk.StateKey = "Reprieve/simulation"

type simulation struct{}

// Clone is part of fwk.StateData.
func (s simulation) Clone() fwk.StateData { return s }

// Simulates reports whether a PreFilter plugin is called by an Oracle and not by a scheduling cycle.
func Simulates(state fwk.CycleState) bool {
	_, err := state.Read(simulationKey)
	return err == nil
}

// RemoveUnit takes a unit's pods out of the simulated state. Those that matter by their room only stay: room is for the
// core to reckon with.
func (o *Oracle) RemoveUnit(unit int) {
	if !o.Touches(unit) {
		return
	}
	pods := o.view.Cluster.Units[unit].Pods
	for i := range pods {
		o.remove(pods[i].Node, snapshot.PodInfo(&pods[i]))
	}
}

// RestoreUnit puts a unit's pods back.
func (o *Oracle) RestoreUnit(unit int) {
	if !o.Touches(unit) {
		return
	}
	pods := o.view.Cluster.Units[unit].Pods
	for i := range pods {
		o.add(pods[i].Node, snapshot.PodInfo(&pods[i]))
	}
}

// RemoveLeaving takes a terminating pod out of the simulated state.
func (o *Oracle) RemoveLeaving(pod int) {
	lp := &o.view.Cluster.Leaving[pod]
	o.remove(lp.Node, snapshot.PodInfo(lp))
}

// RestoreLeaving puts a terminating pod back.
func (o *Oracle) RestoreLeaving(pod int) {
	lp := &o.view.Cluster.Leaving[pod]
	o.add(lp.Node, snapshot.PodInfo(lp))
}

// Place adds the next member of the class to the node.
func (o *Oracle) Place(c, n int) {
	if !o.podSensitive {
		return
	}
	oc := &o.classes[c]
	if oc.placed == len(oc.members) {
		pi, err := framework.NewPodInfo(oc.pods[oc.placed].GetPod().DeepCopy())
		if err != nil {
			o.fail(err)
			return
		}
		oc.members, oc.claimed = append(oc.members, pi), append(oc.claimed, nil)
	}
	pi := oc.members[oc.placed]
	pi.GetPod().Spec.NodeName = o.view.Cluster.Nodes[n].Name
	oc.claimed[oc.placed] = o.claim(oc, pi.GetPod(), o.view.NodeInfo(n))
	oc.settle(n, 1)
	oc.placed++
	o.add(n, pi)
	o.countCrossTerms(c, o.view.NodeInfo(n), 1)
}

// Unplace takes a member of the class off the node again.
func (o *Oracle) Unplace(c, n int) {
	if !o.podSensitive {
		return
	}
	oc := &o.classes[c]
	name := o.view.Cluster.Nodes[n].Name
	for i := oc.placed - 1; i >= 0; i-- {
		pi := oc.members[i]
		if pi.GetPod().Spec.NodeName != name {
			continue
		}
		o.remove(n, pi)
		o.countCrossTerms(c, o.view.NodeInfo(n), -1)
		o.unclaim(oc.claimed[i])
		oc.settle(n, -1)
		pi.GetPod().Spec.NodeName, oc.claimed[i] = "", nil
		// The next member that is placed takes the pod that this one was, so that pods stay distinct.
		oc.placed--
		oc.members[i], oc.members[oc.placed] = oc.members[oc.placed], oc.members[i]
		oc.claimed[i], oc.claimed[oc.placed] = oc.claimed[oc.placed], oc.claimed[i]
		return
	}
	o.fail(fmt.Errorf("no member of class %d stands on node %s", c, name))
}

// add puts a pod on a node in the simulated state.
func (o *Oracle) add(n int, pi fwk.PodInfo) {
	if !o.podSensitive {
		return
	}
	info := o.simulatedNode(n)
	info.AddPodInfo(pi)
	o.follow(n, pi, 1)
	o.extend(func(oc *oracleClass, own *corev1.Pod) *fwk.Status {
		return o.profile.RunPreFilterExtensionAddPod(o.ctx, oc.state, own, pi, info)
	})
}

// remove takes a pod off a node in the simulated state.
func (o *Oracle) remove(n int, pi fwk.PodInfo) {
	if !o.podSensitive {
		return
	}
	info := o.simulatedNode(n)
	if err := info.RemovePod(o.logger, pi.GetPod()); err != nil {
		o.fail(err)
		return
	}
	keepPorts(info, pi)
	o.follow(n, pi, -1)
	o.extend(func(oc *oracleClass, own *corev1.Pod) *fwk.Status {
		return o.profile.RunPreFilterExtensionRemovePod(o.ctx, oc.state, own, pi, info)
	})
}

// follow counts a pod for the spread of classes.
func (o *Oracle) follow(n int, pi fwk.PodInfo, by int) {
	for i := range o.classes {
		for _, r := range o.classes[i].spreads {
			r.follow(pi.GetPod(), n, by)
		}
	}
}

// keepPorts marks host ports as used that were dropped with a pod although others on the node have them too:
// a NodeInfo expects no two pods with the same port, and the simulation has them while it looks for a way out.
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
func (o *Oracle) extend(f func(oc *oracleClass, own *corev1.Pod) *fwk.Status) {
	for i := range o.classes {
		if oc := &o.classes[i]; oc.stateful {
			oc.stale = true
			if status := f(oc, oc.pods[0].GetPod()); !status.IsSuccess() {
				o.fail(status.AsError())
			}
		}
	}
}

// simulatedNode is a node as the simulation has it, in a copy that may be changed.
func (o *Oracle) simulatedNode(n int) fwk.NodeInfo {
	info, ok := o.simulated[n]
	if !ok {
		info = o.view.NodeInfo(n).Snapshot()
		o.simulated[n] = info
	}
	return info
}
