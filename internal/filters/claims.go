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

// claimPlugin is a filter for claims of volumes or devices. It considers a claim as used only after
// Reserve was called for the pod, in memory. So the Oracle calls Reserve for each member that it
// places, and later members see the remaining claims. It calls Unreserve when it removes a member.
type claimPlugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ReservePlugin
}

// claimPlugins returns the claim plugins of a profile.
func claimPlugins(profile framework.Framework) []claimPlugin {
	var out []claimPlugin
	for _, ext := range profile.EnqueueExtensions() {
		if pl, ok := ext.(claimPlugin); ok && (pl.Name() == names.VolumeBinding || pl.Name() == names.DynamicResources) {
			out = append(out, pl)
		}
	}
	return out
}

// claimed has the reserved claims of a placed member.
type claimed struct {
	pod     *corev1.Pod
	node    string
	state   fwk.CycleState
	plugins []claimPlugin
	// shared are the volume claims that it shares with other members.
	shared []string
}

// claim reserves a member's claims on its node. Claims that members share are reserved with the
// first of these members, because unreserving them for one member would unreserve them for all.
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

// withClaim returns a copy of a pod without a node, with one volume claim and no other volumes.
func withClaim(pod *corev1.Pod, name string) *corev1.Pod {
	pod = claimingOnly(pod, func(other string) bool { return other == name })
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil })
	return pod
}

// claimingOnly returns a copy of a pod without a node, with only some of its volume claims.
func claimingOnly(pod *corev1.Pod, claims func(name string) bool) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = ""
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && !claims(v.PersistentVolumeClaim.ClaimName)
	})
	return pod
}

// claimPromised reserves the claims of pods with reservations on a node. The pods have reserved no
// claims yet, but other pods must not use their devices. It runs when the core asks about the node
// for a class with claims.
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

// claimBy reserves the claims of a pod without a node on one node, with some plugins. It skips
// plugins whose claims the pod shares, because unreserving them later would affect the other pods.
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

// unclaim unreserves claims.
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

// claimsChanged marks the claim filters of every class as outdated.
func (o *Oracle) claimsChanged() {
	for i := range o.classes {
		o.classes[i].claimsStale = len(o.classes[i].claims) > 0
	}
}

// volumeClaims returns the names of a pod's volume claims.
func volumeClaims(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			out = append(out, c.ClaimName)
		}
	}
	return out
}

// IsClaimant reports whether a pod has claims that no filter reserves before it is placed: devices,
// or an unbound volume of a node.
func IsClaimant(profile framework.Framework, pod *corev1.Pod) bool {
	return UsesDevices(profile, pod) || claimsLocalVolume(profile, pod)
}

// claimsLocalVolume reports whether a pod has a claim for an existing volume that is chosen on the
// pod's node.
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

// sharesDevice reports whether a claim of the pod is already reserved for the pod, or is being
// allocated for another pod. Unreserving such a claim would call the API, or affect the other pod.
func (o *Oracle) sharesDevice(pod *corev1.Pod) bool {
	claims := o.profile.SharedDRAManager().ResourceClaims()
	return slices.ContainsFunc(claimNames(pod), func(name string) bool {
		claim, err := claims.Get(pod.Namespace, name)
		return err == nil && (isReservedFor(claim, pod) || claims.GetPendingAllocation(claim.UID) != nil)
	})
}

// hasVolume reports whether a member uses a volume claim.
func (o *Oracle) hasVolume(namespace, name string) bool {
	users := o.users[name]
	// All members are in one namespace.
	return len(users) > 0 && o.classes[users[0]].pods[0].GetPod().Namespace == namespace
}

// hasDeviceOf reports whether a member shares a device claim with another pod.
func (o *Oracle) hasDeviceOf(pod *corev1.Pod) bool {
	theirs := claimNames(pod)
	return len(theirs) > 0 && slices.ContainsFunc(o.classes, func(oc oracleClass) bool {
		return slices.ContainsFunc(oc.pods, func(pi fwk.PodInfo) bool {
			return pi.GetPod().Namespace == pod.Namespace && slices.ContainsFunc(claimNames(pi.GetPod()), func(name string) bool { return slices.Contains(theirs, name) })
		})
	})
}

// claimant returns the member of a class that would be placed next. If members have volumes or
// claims of their own, the filters are asked about this member.
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

// lookAtClaims runs PreFilter of the claim filters again. It returns false if there is nothing left
// to claim.
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
