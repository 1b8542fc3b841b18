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

// Claims finds claims for volumes. It is a PersistentVolumeClaimLister.
type Claims interface {
	PersistentVolumeClaims(namespace string) corelisters.PersistentVolumeClaimNamespaceLister
}

// volume is what a volume of a pod means for where the pod may run.
type volume struct {
	Volume corev1.Volume
	// Claim is the name of its claim, unless that is in Volume. Each may be for a volume elsewhere.
	Claim string `json:",omitempty"`
	// Open is what its claim asks for, in place of the name, as long as no node is settled but by the volume that it has: the pods
	// of one StatefulSet, or with ephemeral volumes, are the same until then.
	Open *openClaim `json:",omitempty"`
}

// openClaim is what a claim asks for. Its class may stand in an annotation.
type openClaim struct {
	Class string
	Spec  corev1.PersistentVolumeClaimSpec
}

// sharedClaims are the claims for volumes that several of the pods have. Where one of these goes, the others may have to go.
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

// volumesOf are the volumes of a pod that can keep it from a node.
func volumesOf(pod *corev1.Pod, claims Claims, shared sets.Set[types.NamespacedName]) []volume {
	var out []volume
	for _, v := range queue.ConfiningVolumes(pod) {
		volume := volume{Volume: v}
		switch {
		case v.PersistentVolumeClaim != nil && shared.Has(types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}):
			// By its name.
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

// openClaimOf is what the claim of a volume asks for, with the volume that it has, if any; nil where there is no such claim, where a volume
// is being made on a node, and where it matters whether other pods have it.
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
