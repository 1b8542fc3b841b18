package filters

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
)

// sharedClaim is a claim that several members have, and whose volume is to be made where the first pod with it goes. VolumeBinding
// holds all others to that node from then on, and none of them has the volume before the whole gang is through: so they stand on one node,
// or they never all pass.
type sharedClaim struct {
	// classes are those of the members.
	classes []int
	// placed counts the members that stand in the simulated state, all of them on node.
	placed, node int
	// alone is true where only one pod may have the claim at a time, wherever it stands.
	alone bool
}

// findShared finds the claims for volumes that members share.
func (o *Oracle) findShared() {
	o.users = make(map[string][]int)
	for c := range o.classes {
		if o.classes[c].rejected != "" {
			continue
		}
		for _, pi := range o.classes[c].pods {
			for _, name := range volumeClaims(pi.GetPod()) {
				o.users[name] = append(o.users[name], c)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.users)) {
		users := o.users[name]
		first := &o.classes[users[0]]
		if len(users) < 2 || !slices.ContainsFunc(first.claims, func(pl claimPlugin) bool { return pl.Name() == names.VolumeBinding }) ||
			!o.isMadeWherePodsGo(first.pods[0].GetPod().Namespace, name) {
			continue
		}
		shared := &sharedClaim{classes: slices.Compact(slices.Clone(users))}
		for _, c := range shared.classes {
			o.classes[c].shared = append(o.classes[c].shared, shared)
		}
	}
}

// isShared reports whether several members have a claim for a volume.
func (o *Oracle) isShared(name string) bool { return len(o.users[name]) > 1 }

// isUsed reports whether a pod that has a place claims a volume: what that has been reserved would be taken back with what a member is.
func (o *Oracle) isUsed(namespace, name string) bool {
	return o.profile.SnapshotSharedLister().StorageInfos().IsPVCUsedByPods(namespace + "/" + name)
}

// heldClaim is a claim that members share, as long as some of them stand in the simulated state.
type heldClaim struct {
	members int
	// reserved is what has been reserved for it.
	reserved *claimed
}

// holdShared reserves the claims that a member shares with others, where it is the first to be placed: the volume that one of these claims
// comes to is settled by that, for all of them. It returns the claims.
func (o *Oracle) holdShared(plugins []claimPlugin, pod *corev1.Pod, info fwk.NodeInfo) []string {
	var shared []string
	for _, name := range volumeClaims(pod) {
		if o.isShared(name) && !slices.Contains(shared, name) && !o.isUsed(pod.Namespace, name) {
			shared = append(shared, name)
		}
	}
	for _, name := range shared {
		held := o.held[name]
		if held == nil {
			if o.held == nil {
				o.held = make(map[string]*heldClaim)
			}
			held = &heldClaim{reserved: o.claimBy(plugins, withClaim(pod, name), info, func(plugin string) bool {
				return plugin != names.VolumeBinding
			})}
			o.held[name] = held
		}
		held.members++
	}
	return shared
}

// releaseShared takes back what of that no member has any more.
func (o *Oracle) releaseShared(shared []string) {
	for _, name := range shared {
		if held := o.held[name]; held.members > 1 {
			held.members--
		} else {
			delete(o.held, name)
			o.unclaim(held.reserved)
		}
	}
}

// findSharedDevices says of members that share a claim for devices which has none yet that they cannot start together: the devices are
// given once the first of them is bound, and DynamicResources refuses all others until then. Nothing is said as long as one of them
// does for the gang.
func (o *Oracle) findSharedDevices() {
	members := 0
	users := make(map[string][]int)
	for c := range o.classes {
		members += len(o.classes[c].pods)
		for _, pi := range o.classes[c].pods {
			for _, name := range claimNames(pi.GetPod()) {
				users[name] = append(users[name], c)
			}
		}
	}
	manager := o.profile.SharedDRAManager()
	if len(users) == 0 || manager == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		among := users[name]
		if members-len(among)+1 >= o.preemptor.MinCount {
			continue
		}
		claim, err := manager.ResourceClaims().Get(o.classes[among[0]].pods[0].GetPod().Namespace, name)
		if err != nil || claim.Status.Allocation != nil {
			continue
		}
		for _, c := range slices.Compact(among) {
			if oc := &o.classes[c]; oc.rejected == "" {
				oc.rejected = fmt.Sprintf("ResourceClaim %s has no devices yet, and members that share it cannot start together", name)
			}
		}
	}
}

// findExclusive finds the claims that only one pod may have at a time (ReadWriteOncePod), and several members have, or one that is promised
// room. The filter for that is skipped as long as none of them is there, and would refuse the next one once one is.
func (o *Oracle) findExclusive() {
	if len(o.users) == 0 {
		return
	}
	claims := o.profile.SharedInformerFactory().Core().V1().PersistentVolumeClaims().Lister()
	promised := make(map[types.NamespacedName]int)
	o.eachPromised(func(_ int, pi fwk.PodInfo) {
		for _, name := range volumeClaims(pi.GetPod()) {
			promised[types.NamespacedName{Namespace: pi.GetPod().Namespace, Name: name}]++
		}
	})
	for _, name := range slices.Sorted(maps.Keys(o.users)) {
		users := o.users[name]
		named := types.NamespacedName{Namespace: o.classes[users[0]].pods[0].GetPod().Namespace, Name: name}
		claim, err := claims.PersistentVolumeClaims(named.Namespace).Get(name)
		if err != nil || !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		exclusive := &sharedClaim{classes: slices.Compact(slices.Clone(users)), alone: true, placed: promised[named]}
		if len(users)+exclusive.placed < 2 {
			continue
		}
		for _, c := range exclusive.classes {
			oc := &o.classes[c]
			oc.shared, oc.stateful, o.podSensitive = append(oc.shared, exclusive), true, true
		}
	}
}

// isMadeWherePodsGo reports whether the volume of a claim is to be made on a node that is not settled yet. Volumes that are there already,
// for classes that make none, may be for several nodes.
func (o *Oracle) isMadeWherePodsGo(namespace, name string) bool {
	class := classOfUnbound(o.profile, namespace, name)
	return class != nil && class.Provisioner != storagehelpers.NotSupportedProvisioner
}

// classOfUnbound is the class of a claim that gets its volume where the first pod with it goes; nil for any other.
func classOfUnbound(profile framework.Framework, namespace, name string) *storagev1.StorageClass {
	factory := profile.SharedInformerFactory()
	claim, err := factory.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
	if err != nil || claim.Spec.VolumeName != "" {
		return nil
	}
	class, err := factory.Storage().V1().StorageClasses().Lister().Get(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if err != nil || ptr.Deref(class.VolumeBindingMode, "") != storagev1.VolumeBindingWaitForFirstConsumer {
		return nil
	}
	return class
}

// sharesOn reports whether a member of the class may stand on a node as far as others are concerned that have a claim of its.
func (oc *oracleClass) sharesOn(n int) bool {
	return !slices.ContainsFunc(oc.shared, func(s *sharedClaim) bool { return s.placed > 0 && (s.alone || s.node != n) })
}

// settle counts a member on a node, or one less.
func (oc *oracleClass) settle(n, more int) {
	for _, s := range oc.shared {
		s.placed, s.node = s.placed+more, n
	}
}

// eachNode numbers the nodes, each of them a domain of its own.
func (o *Oracle) eachNode() []int32 {
	// No label has that key.
	const key = ""
	if known, ok := o.domains[key]; ok {
		return known
	}
	domains := make([]int32, len(o.view.Cluster.Nodes))
	for n := range domains {
		if domains[n] = int32(n); o.view.NodeInfo(n) == nil {
			domains[n] = -1
		}
	}
	o.domains[key] = domains
	return domains
}
