package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Claims finds volume claims. It is a PersistentVolumeClaimLister.
type Claims interface {
	PersistentVolumeClaims(namespace string) corelisters.PersistentVolumeClaimNamespaceLister
}

// volume is a volume of a pod, with the facts that limit the nodes that the pod can run on.
type volume struct {
	Volume corev1.Volume
	// Claim is the name of an ephemeral volume's claim if Open is nil; otherwise "". For other
	// volumes, Volume has the name.
	Claim string `json:",omitempty"`
	// Open is the request of the claim, without its name. So pods of a StatefulSet, or pods with
	// ephemeral volumes, are equal although they have different claims. Open is nil if the request
	// alone does not determine the possible nodes; see openClaimOf.
	Open *openClaim `json:",omitempty"`
}

// openClaim is the request of a volume claim. Class is its storage class, which may come from an
// annotation.
type openClaim struct {
	Class string
	Spec  corev1.PersistentVolumeClaimSpec
}

// sharedClaims returns the volume claims that more than one of the pods uses. The node of one of
// these pods may limit the nodes of the others.
func sharedClaims(pods []*corev1.Pod) sets.Set[types.NamespacedName] {
	seen, shared := sets.New[types.NamespacedName](), sets.New[types.NamespacedName]()
	for _, pod := range pods {
		own := sets.New[types.NamespacedName]()
		for i := range pod.Spec.Volumes {
			if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
				own.Insert(types.NamespacedName{Namespace: pod.Namespace, Name: claim.ClaimName})
			}
		}
		for name := range own {
			if seen.Has(name) {
				shared.Insert(name)
			}
			seen.Insert(name)
		}
	}
	return shared
}

// volumesOf returns the volumes of a pod that may exclude nodes.
func volumesOf(pod *corev1.Pod, claims Claims, shared sets.Set[types.NamespacedName]) []volume {
	var out []volume
	for _, v := range queue.ConfiningVolumes(pod) {
		volume := volume{Volume: v}
		switch {
		case v.PersistentVolumeClaim != nil && shared.Has(types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}):
			// Keep the name of a claim that several pods use, because pods with different shared
			// claims must not be in one class; see classKey.
		case v.PersistentVolumeClaim != nil:
			if volume.Open = openClaimOf(pod, &v, v.PersistentVolumeClaim.ClaimName, claims); volume.Open != nil {
				source := *v.PersistentVolumeClaim
				source.ClaimName = ""
				volume.Volume.PersistentVolumeClaim = &source
			}
		case v.Ephemeral != nil:
			name := ephemeral.VolumeClaimName(pod, &v)
			if volume.Open = openClaimOf(pod, &v, name, claims); volume.Open == nil {
				volume.Claim = name
			}
		}
		out = append(out, volume)
	}
	return out
}

// openClaimOf returns the request of a volume's claim, including the name of its PersistentVolume.
// It returns nil in these cases:
//
//   - The claim does not exist, is terminating, or belongs to another pod.
//   - A node is already selected for its provisioning.
//   - Only one pod may use it (ReadWriteOncePod).
func openClaimOf(pod *corev1.Pod, v *corev1.Volume, name string, claims Claims) *openClaim {
	claim, err := claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err != nil || claim.DeletionTimestamp != nil || v.Ephemeral != nil && ephemeral.VolumeIsForPod(pod, claim) != nil {
		return nil
	}
	_, selected := claim.Annotations[storagehelpers.AnnSelectedNode]
	if selected || slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return nil
	}
	return &openClaim{Class: storagehelpers.GetPersistentVolumeClaimClass(claim), Spec: claim.Spec}
}
