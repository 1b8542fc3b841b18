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

// sharedClaim is a claim that several members use, with a volume that is provisioned on the node of
// the first pod. From then on VolumeBinding limits all others to that node. The volume does not
// exist before the whole gang is admitted, so these members must be on one node.
type sharedClaim struct {
	// classes are the classes of these members.
	classes []int
	// placed counts the members placed in the simulated state, all on node.
	placed, node int
	// alone is true if only one pod may use the claim at a time, on any node.
	alone bool
}

// findShared finds the volume claims that members share.
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

// isShared reports whether several members use a volume claim.
func (o *Oracle) isShared(name string) bool { return len(o.users[name]) > 1 }

// isUsed reports whether a pod with a node uses a volume claim. Unreserving a member's claim would
// also unreserve that pod's.
func (o *Oracle) isUsed(namespace, name string) bool {
	return o.profile.SnapshotSharedLister().StorageInfos().IsPVCUsedByPods(namespace + "/" + name)
}

// heldClaim is a claim that members share, while some of them are placed.
type heldClaim struct {
	members int
	// reserved has the reservation of the claim.
	reserved *claimed
}

// holdShared reserves the claims that a member shares with others if it is the first to be placed.
// That determines the volume for all of them. It returns the shared claims of the member.
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

// releaseShared unreserves the shared claims that no other member uses any more.
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

// findSharedDevices rejects members that share an unallocated device claim, because they cannot
// start together. The devices are allocated once the first member is bound, and DynamicResources
// rejects the others until then. Members are not rejected if the gang needs only one of them.
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

// findExclusive finds the claims that only one pod may use at a time (ReadWriteOncePod) and that
// several members, or pods with reservations, use. The filter is skipped as long as none of them is
// placed, and would reject the next one after that.
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

// isMadeWherePodsGo reports whether a claim is unbound, waits for its first consumer, and has a
// class with a provisioner. Its volume is then created for the node of the first pod. Without a
// provisioner, existing volumes may be on several nodes.
func (o *Oracle) isMadeWherePodsGo(namespace, name string) bool {
	class := classOfUnbound(o.profile, namespace, name)
	return class != nil && class.Provisioner != storagehelpers.NotSupportedProvisioner
}

// classOfUnbound returns the class of an unbound claim that waits for its first consumer; nil for
// any other claim.
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

// sharesOn reports whether a member of the class may use a node, given the other members that share
// its claims.
func (oc *oracleClass) sharesOn(n int) bool {
	return !slices.ContainsFunc(oc.shared, func(s *sharedClaim) bool { return s.placed > 0 && (s.alone || s.node != n) })
}

// settle counts a member of the class that is added to a node (more is 1) or removed from it (more
// is -1).
func (oc *oracleClass) settle(n, more int) {
	for _, s := range oc.shared {
		s.placed, s.node = s.placed+more, n
	}
}

// eachNode returns a domain number for each node: every node is a domain.
func (o *Oracle) eachNode() []int32 {
	// Use the empty key, because no label has it.
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
