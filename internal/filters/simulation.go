package filters

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// simulationKey is the key of a value in the cycle states of an Oracle; see Simulates.
const simulationKey fwk.StateKey = "Reprieve/simulation"

type simulation struct{}

// Clone implements fwk.StateData.
func (s simulation) Clone() fwk.StateData { return s }

// Simulates reports whether the caller of a PreFilter plugin is an Oracle, and not a scheduling
// cycle.
func Simulates(state fwk.CycleState) bool {
	_, err := state.Read(simulationKey)
	return err == nil
}

// RemoveUnit removes a unit's pods from the simulated state. It does nothing if only the room of
// the pods matters, because the core counts room.
func (o *Oracle) RemoveUnit(unit int) {
	if !o.Touches(unit) {
		return
	}
	pods := o.view.Cluster.Units[unit].Pods
	for i := range pods {
		o.remove(pods[i].Node, snapshot.PodInfo(&pods[i]))
	}
}

// RestoreUnit undoes RemoveUnit.
func (o *Oracle) RestoreUnit(unit int) {
	if !o.Touches(unit) {
		return
	}
	pods := o.view.Cluster.Units[unit].Pods
	for i := range pods {
		o.add(pods[i].Node, snapshot.PodInfo(&pods[i]))
	}
}

// RemoveLeaving removes a terminating pod from the simulated state.
func (o *Oracle) RemoveLeaving(pod int) {
	lp := &o.view.Cluster.Leaving[pod]
	o.remove(lp.Node, snapshot.PodInfo(lp))
}

// RestoreLeaving undoes RemoveLeaving.
func (o *Oracle) RestoreLeaving(pod int) {
	lp := &o.view.Cluster.Leaving[pod]
	o.add(lp.Node, snapshot.PodInfo(lp))
}

// Place adds the next member of class c to node n.
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

// Unplace removes the last placed member of class c from node n.
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
		// Swap the pods of the members: the next member to place then uses the pod of the removed
		// member, and all placed pods stay distinct.
		oc.placed--
		oc.members[i], oc.members[oc.placed] = oc.members[oc.placed], oc.members[i]
		oc.claimed[i], oc.claimed[oc.placed] = oc.claimed[oc.placed], oc.claimed[i]
		return
	}
	o.fail(fmt.Errorf("no member of class %d stands on node %s", c, name))
}

// add adds a pod to a node in the simulated state.
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

// remove removes a pod from a node in the simulated state.
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

// follow updates the counts of the topology spread constraints of all classes. The argument by is 1
// for an added pod and -1 for a removed one.
func (o *Oracle) follow(n int, pi fwk.PodInfo, by int) {
	for i := range o.classes {
		for _, r := range o.classes[i].spreads {
			r.follow(pi.GetPod(), n, by)
		}
	}
}

// keepPorts marks the host ports of the remaining pods as used. Removing a pod from a NodeInfo
// frees its ports even if another pod uses the same port. A real node never has two pods with the
// same port, but the simulated state may have them.
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

// extend calls f for every class that depends on other pods, after a change of the simulated state.
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

// simulatedNode returns the copy of node n that the simulation may change.
func (o *Oracle) simulatedNode(n int) fwk.NodeInfo {
	info, ok := o.simulated[n]
	if !ok {
		info = o.view.NodeInfo(n).Snapshot()
		o.simulated[n] = info
	}
	return info
}
