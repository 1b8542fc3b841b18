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

// claimPlugin is a filter for what pods claim: volumes, or devices. It knows of a claim that has been promised to a pod
// only once that pod is reserved, in memory. So members are reserved as they are placed in the simulated state, and the
// next one is told of what is left; all of it is taken back with the members.
type claimPlugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ReservePlugin
}

// claimPlugins are those of a profile.
func claimPlugins(profile framework.Framework) []claimPlugin {
	var out []claimPlugin
	for _, ext := range profile.EnqueueExtensions() {
		if pl, ok := ext.(claimPlugin); ok && (pl.Name() == names.VolumeBinding || pl.Name() == names.DynamicResources) {
			out = append(out, pl)
		}
	}
	return out
}

// claimed is what a placed member has been reserved.
type claimed struct {
	pod     *corev1.Pod
	node    string
	state   fwk.CycleState
	plugins []claimPlugin
	// shared are the claims for volumes that it has with others.
	shared []string
}

// claim reserves what a member claims on the node that it has been placed on. What it shares with others is reserved with the first of
// them: to take its own back would take back theirs.
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

// withClaim is a copy of a pod, as it was before it was placed, that claims one volume and no other.
func withClaim(pod *corev1.Pod, name string) *corev1.Pod {
	pod = claimingOnly(pod, func(other string) bool { return other == name })
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil })
	return pod
}

// claimingOnly is a copy of a pod, as it was before it was placed, with only some of the claims for volumes that it names.
func claimingOnly(pod *corev1.Pod, claims func(name string) bool) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = ""
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && !claims(v.PersistentVolumeClaim.ClaimName)
	})
	return pod
}

// claimPromised reserves what those claim to which the preemptor has to leave room on a node: they have been reserved nothing yet, and a
// device is no more there for others than the room is. It is done where a class with claims is asked about the node.
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

// unclaimPromised takes all of that back.
func (o *Oracle) unclaimPromised() {
	for _, held := range o.promised {
		for _, c := range held {
			o.unclaim(c)
		}
	}
	o.promised = nil
}

// claimBy reserves by some plugins what a pod without a node claims on one, but for those by which it shares that with others: what these
// have been reserved would be taken back with it.
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

// unclaim takes that back.
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

// claimsChanged has every class look again at what there is to claim.
func (o *Oracle) claimsChanged() {
	for i := range o.classes {
		o.classes[i].claimsStale = len(o.classes[i].claims) > 0
	}
}

// volumeClaims are the names of the claims for volumes that a pod names.
func volumeClaims(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			out = append(out, c.ClaimName)
		}
	}
	return out
}

// IsClaimant reports whether a pod claims what no filter keeps for it before it has a place: devices, or a volume of a node that is not
// bound yet.
func IsClaimant(profile framework.Framework, pod *corev1.Pod) bool {
	return UsesDevices(profile, pod) || claimsLocalVolume(profile, pod)
}

// claimsLocalVolume reports whether a pod has a claim that a volume is to be found for where the pod goes.
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

// sharesDevice reports whether some claim of a pod is being allocated for another one, or has been reserved for the pod
// itself: to take its reservation back would take back the other's, or be a call to the API.
func (o *Oracle) sharesDevice(pod *corev1.Pod) bool {
	claims := o.profile.SharedDRAManager().ResourceClaims()
	return slices.ContainsFunc(claimNames(pod), func(name string) bool {
		claim, err := claims.Get(pod.Namespace, name)
		return err == nil && (isReservedFor(claim, pod) || claims.GetPendingAllocation(claim.UID) != nil)
	})
}

// hasVolume reports whether a member names a claim for a volume.
func (o *Oracle) hasVolume(namespace, name string) bool {
	users := o.users[name]
	// All members are in one namespace.
	return len(users) > 0 && o.classes[users[0]].pods[0].GetPod().Namespace == namespace
}

// hasDeviceOf reports whether a member has one of another pod's claims for devices: they have it together.
func (o *Oracle) hasDeviceOf(pod *corev1.Pod) bool {
	theirs := claimNames(pod)
	return len(theirs) > 0 && slices.ContainsFunc(o.classes, func(oc oracleClass) bool {
		return slices.ContainsFunc(oc.pods, func(pi fwk.PodInfo) bool {
			return pi.GetPod().Namespace == pod.Namespace && slices.ContainsFunc(claimNames(pi.GetPod()), func(name string) bool { return slices.Contains(theirs, name) })
		})
	})
}

// claimant is the member of a class that would be placed next: where each has volumes or claims of its own, it is for this one
// that filters are asked.
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

// lookAtClaims brings the state of a class level with what there is to claim. It reports false where nothing is left.
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
