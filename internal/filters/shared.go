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

// sharedClaim is a volume claim that several members use. Its volume is created for the node of the
// first pod that uses it. VolumeBinding then limits all other pods to this node. So these members
// must be on one node. The filters cannot enforce this during planning, because the volume is
// created only after the whole gang is admitted.
type sharedClaim struct {
	// classes are the classes of the members that use the claim.
	classes []int
	// placed is the number of members that use the claim and are placed in the simulated state.
	// They are all on node.
	placed, node int
	// alone is true if only one pod may use the claim at a time, on any node (ReadWriteOncePod).
	alone bool
}

// findShared sets users, and creates a sharedClaim for each claim that members share.
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

// isShared reports whether more than one member uses the volume claim.
func (o *Oracle) isShared(name string) bool { return len(o.users[name]) > 1 }

// isUsed reports whether a pod with a node uses a volume claim. Such a claim is never reserved for
// a member, because unreserving it would also unreserve it for that pod.
func (o *Oracle) isUsed(namespace, name string) bool {
	return o.profile.SnapshotSharedLister().StorageInfos().IsPVCUsedByPods(namespace + "/" + name)
}

// heldClaim is a claim that members share. members is the number of these members that are placed.
type heldClaim struct {
	members int
	// reserved has the reservation of the claim.
	reserved *claimed
}

// holdShared reserves the volume claims that a member shares with other members, unless a placed
// member has reserved them already. So all members that share a claim get the same volume. It skips
// claims that a pod with a node uses; see isUsed. It returns the names of all shared claims that it
// did not skip.
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

// releaseShared unreserves the shared claims that no placed member uses any more.
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

// findSharedDevices rejects members that share a device claim without an allocation. Such members
// cannot start together: the devices are allocated when the first member is bound, and until then
// DynamicResources rejects the others. If the gang needs only one of these members, no member is
// rejected.
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

// findExclusive creates a sharedClaim for each ReadWriteOncePod claim with several users: members
// or pods with reservations. No filter detects the conflict in time, because the filter for such
// claims is skipped as long as none of these pods has a node.
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

// isMadeWherePodsGo reports whether the volume of a claim will be created for the node of its first
// pod. The claim is unbound, waits for its first consumer, and has a StorageClass with a
// provisioner. Without a provisioner, the claim uses an existing volume.
func (o *Oracle) isMadeWherePodsGo(namespace, name string) bool {
	class := classOfUnbound(o.profile, namespace, name)
	return class != nil && class.Provisioner != storagehelpers.NotSupportedProvisioner
}

// classOfUnbound returns the StorageClass of an unbound claim that waits for its first consumer;
// nil for other claims.
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

// sharesOn reports whether one more member of the class may use node n, given the placed members
// that share claims with the class.
func (oc *oracleClass) sharesOn(n int) bool {
	return !slices.ContainsFunc(oc.shared, func(s *sharedClaim) bool { return s.placed > 0 && (s.alone || s.node != n) })
}

// settle updates the sharedClaims of the class after a member is added to node n (more is 1) or
// removed from it (more is -1).
func (oc *oracleClass) settle(n, more int) {
	for _, s := range oc.shared {
		s.placed, s.node = s.placed+more, n
	}
}

// eachNode returns a different domain number for each node.
func (o *Oracle) eachNode() []int32 {
	// The key of the cache is "", because no label has this key.
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
