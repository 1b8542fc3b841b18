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

// volume is a pod's volume with the facts that limit where the pod may run.
type volume struct {
	Volume corev1.Volume
	// Claim is the name of the claim; empty if Volume has the claim. The claim may be for a volume
	// on another node.
	Claim string `json:",omitempty"`
	// Open is the request of the claim, in place of its name. So pods of one StatefulSet, or pods
	// with ephemeral volumes, are equal although their claims differ. Open is nil if more than the
	// request matters; see openClaimOf.
	Open *openClaim `json:",omitempty"`
}

// openClaim is the request of a claim. The class may come from an annotation.
type openClaim struct {
	Class string
	Spec  corev1.PersistentVolumeClaimSpec
}

// sharedClaims returns the volume claims that several of the pods use. The node of one such pod may
// limit the others.
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

// volumesOf returns the volumes of a pod that can exclude it from a node.
func volumesOf(pod *corev1.Pod, claims Claims, shared sets.Set[types.NamespacedName]) []volume {
	var out []volume
	for _, v := range queue.ConfiningVolumes(pod) {
		volume := volume{Volume: v}
		switch {
		case v.PersistentVolumeClaim != nil && shared.Has(types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}):
			// The claim stays identified by its name.
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
// It returns nil if the claim does not exist, is terminating or belongs to another pod. It also
// returns nil if a node is selected for its provisioning, or if only one pod may use it
// (ReadWriteOncePod).
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
