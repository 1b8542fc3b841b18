package filters

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// claimPlugin is a filter for claims of volumes or devices. The plugin counts a claim as used only
// after its method Reserve has recorded this in memory. So the Oracle calls Reserve for each member
// that it places, and Unreserve when it removes the member. Members that are placed later then see
// the remaining volumes and devices.
type claimPlugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ReservePlugin
}

// claimPlugins returns the claimPlugins of a profile: VolumeBinding and DynamicResources.
func claimPlugins(profile framework.Framework) []claimPlugin {
	var out []claimPlugin
	for _, ext := range profile.EnqueueExtensions() {
		if pl, ok := ext.(claimPlugin); ok && (pl.Name() == names.VolumeBinding || pl.Name() == names.DynamicResources) {
			out = append(out, pl)
		}
	}
	return out
}

// claimed has the claims that are reserved for a placed member.
type claimed struct {
	pod     *corev1.Pod
	node    string
	state   fwk.CycleState
	plugins []claimPlugin
	// shared are the volume claims that the member shares with other members.
	shared []string
}

// claim reserves a member's claims on its node. A claim that several members share is reserved
// once, with the first of them. Unreserving it for one member would unreserve it for all.
func (o *Oracle) claim(oc *oracleClass, pod *corev1.Pod, info fwk.NodeInfo) *claimed {
	if len(oc.claims) == 0 {
		return nil
	}
	c := o.claimBy(oc.claims, claimingOnly(pod, func(name string) bool { return !o.isShared(name) && !o.isUsed(pod.Namespace, name) }), info, func(plugin string) bool {
		return plugin == names.DynamicResources && o.sharesDevice(pod)
	})
	c.shared = o.holdShared(oc.claims, pod, info)
	o.claimsChanged()
	return c
}

// withClaim returns a copy of a pod with only one of its volume claims, and without a node and
// other volumes.
func withClaim(pod *corev1.Pod, name string) *corev1.Pod {
	pod = claimingOnly(pod, func(other string) bool { return other == name })
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil })
	return pod
}

// claimingOnly returns a copy of a pod without a node. The copy has only the volume claims that the
// function claims selects.
func claimingOnly(pod *corev1.Pod, claims func(name string) bool) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = ""
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && !claims(v.PersistentVolumeClaim.ClaimName)
	})
	return pod
}

// claimPromised reserves the claims of the pods that have a reservation on node n. These pods are
// not placed yet, but the preemptor must not use their devices. Only the first call for node n by a
// class with claims has an effect.
func (o *Oracle) claimPromised(oc *oracleClass, n int) {
	if _, done := o.promised[n]; done || len(oc.claims) == 0 {
		return
	}
	var held []*claimed
	info := o.view.NodeInfo(n)
	for _, pi := range o.view.Promised(info.Node().Name) {
		pod := pi.GetPod()
		if len(o.promisedClaims) == 0 {
			o.promisedClaims = claimPlugins(o.profile)
		}
		apart := claimingOnly(pod, func(name string) bool { return !o.hasVolume(pod.Namespace, name) && !o.isUsed(pod.Namespace, name) })
		c := o.claimBy(o.promisedClaims, apart, info, func(plugin string) bool {
			return plugin == names.DynamicResources && (o.sharesDevice(pod) || o.hasDeviceOf(pod))
		})
		if len(c.plugins) > 0 {
			held = append(held, c)
		}
	}
	if len(held) > 0 {
		o.claimsChanged()
	}
	if o.promised == nil {
		o.promised = make(map[int][]*claimed)
	}
	o.promised[n] = held
}

// unclaimPromised undoes claimPromised for all nodes.
func (o *Oracle) unclaimPromised() {
	for _, held := range o.promised {
		for _, c := range held {
			o.unclaim(c)
		}
	}
	o.promised = nil
}

// claimBy reserves the claims of a pod on one node, with the given plugins. It skips a plugin if
// shares returns true for the plugin. In this case, the pod shares a claim with other pods, and
// unreserving the claim later would affect these pods.
func (o *Oracle) claimBy(plugins []claimPlugin, pod *corev1.Pod, info fwk.NodeInfo, shares func(plugin string) bool) *claimed {
	c := &claimed{pod: pod, node: info.Node().Name, state: framework.NewCycleState()}
	c.state.Write(simulationKey, simulation{})
	for _, pl := range plugins {
		if shares(pl.Name()) {
			continue
		}
		_, status := pl.PreFilter(o.ctx, c.state, c.pod, nil)
		if status.IsSuccess() {
			if status = pl.Filter(o.ctx, c.state, c.pod, info); status.IsSuccess() {
				if status = pl.Reserve(o.ctx, c.state, c.pod, c.node); status.IsSuccess() {
					c.plugins = append(c.plugins, pl)
				} else {
					pl.Unreserve(o.ctx, c.state, c.pod, c.node)
				}
			}
		}
		if !status.IsSuccess() && !status.IsRejected() && !status.IsSkip() {
			o.fail(status.AsError())
		}
	}
	return c
}

// unclaim undoes claim or claimBy.
func (o *Oracle) unclaim(c *claimed) {
	if c == nil {
		return
	}
	for _, pl := range c.plugins {
		pl.Unreserve(o.ctx, c.state, c.pod, c.node)
	}
	o.releaseShared(c.shared)
	o.claimsChanged()
}

// claimsChanged marks the PreFilter state of the claim plugins as outdated, for every class.
func (o *Oracle) claimsChanged() {
	for i := range o.classes {
		o.classes[i].claimsStale = len(o.classes[i].claims) > 0
	}
}

// volumeClaims returns the names of a pod's persistent volume claims.
func volumeClaims(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			out = append(out, c.ClaimName)
		}
	}
	return out
}

// IsClaimant reports whether a pod has claims that filters count only after the pod is placed:
// devices, or an unbound volume on a node.
func IsClaimant(profile framework.Framework, pod *corev1.Pod) bool {
	return UsesDevices(profile, pod) || claimsLocalVolume(profile, pod)
}

// claimsLocalVolume reports whether a pod has an unbound claim for an existing volume, as with
// local volumes. Such a volume is chosen together with the node.
func claimsLocalVolume(profile framework.Framework, pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		var name string
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = ephemeral.VolumeClaimName(pod, &v)
		default:
			return false
		}
		class := classOfUnbound(profile, pod.Namespace, name)
		return class != nil && class.Provisioner == storagehelpers.NotSupportedProvisioner
	})
}

// sharesDevice reports whether a device claim of the pod is already reserved for the pod, or is
// being allocated. Unreserving such a claim would call the API or affect another pod.
func (o *Oracle) sharesDevice(pod *corev1.Pod) bool {
	claims := o.profile.SharedDRAManager().ResourceClaims()
	return slices.ContainsFunc(claimNames(pod), func(name string) bool {
		claim, err := claims.Get(pod.Namespace, name)
		return err == nil && (isReservedFor(claim, pod) || claims.GetPendingAllocation(claim.UID) != nil)
	})
}

// hasVolume reports whether a member of the preemptor uses the volume claim with this name.
func (o *Oracle) hasVolume(namespace, name string) bool {
	users := o.users[name]
	// All members are in one namespace.
	return len(users) > 0 && o.classes[users[0]].pods[0].GetPod().Namespace == namespace
}

// hasDeviceOf reports whether a member of the preemptor uses a device claim of the pod.
func (o *Oracle) hasDeviceOf(pod *corev1.Pod) bool {
	theirs := claimNames(pod)
	return len(theirs) > 0 && slices.ContainsFunc(o.classes, func(oc oracleClass) bool {
		return slices.ContainsFunc(oc.pods, func(pi fwk.PodInfo) bool {
			return pi.GetPod().Namespace == pod.Namespace && slices.ContainsFunc(claimNames(pi.GetPod()), func(name string) bool { return slices.Contains(theirs, name) })
		})
	})
}

// claimant returns the pod to call the filters with: the next member to place, if members have
// claims or volumes of their own. Otherwise it returns the first member.
func (oc *oracleClass) claimant() *corev1.Pod {
	switch {
	case len(oc.claims) == 0 && !oc.minds.volumes || oc.placed == len(oc.pods):
		return oc.pods[0].GetPod()
	case oc.placed < len(oc.members):
		return oc.members[oc.placed].GetPod()
	default:
		return oc.pods[oc.placed].GetPod()
	}
}

// lookAtClaims runs PreFilter of the claim plugins again. It returns false if no claim can be
// satisfied any more.
func (o *Oracle) lookAtClaims(oc *oracleClass) bool {
	for _, pl := range oc.claims {
		_, status := pl.PreFilter(o.ctx, oc.state, oc.claimant(), nil)
		if !status.IsSuccess() {
			if !status.IsRejected() {
				o.fail(status.AsError())
			}
			o.logger.V(6).Info("Nothing is left to claim", "pod", klog.KObj(oc.claimant()), "plugin", pl.Name(), "reason", status.Message())
			return false
		}
	}
	oc.claimsStale = false
	return true
}
