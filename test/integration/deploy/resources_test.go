package deploy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// storageClass returns a StorageClass with late binding: a volume is bound when the scheduler has
// selected a node.
func storageClass(name, provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name},
		Provisioner:       provisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

func volume(name, class string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName:       class,
			PersistentVolumeSource: source,
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: poolLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"volumes"},
				}}}},
			}},
		},
	}
}

func volumeClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: meta(name),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To(class),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// mounts returns a function that adds a volume for a persistent volume claim to a pod.
func mounts(claim string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
}

// testVolumes checks two pods with volumes. One uses a volume that already exists. The volume of
// the other pod is provisioned for the node that the scheduler selects.
func testVolumes(t *testing.T, c *cluster) {
	c.create(t,
		storageClass("local", "kubernetes.io/no-provisioner"),
		volume("local", "local", corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}}),
		volumeClaim("local", "local"),
		newPod("local", "volumes", low, mounts("local")))
	c.waitRunning(t, "local")

	claim := volumeClaim("provisioned", "provisioned")
	c.create(t,
		storageClass("provisioned", "example.com/provisioner"),
		claim,
		newPod("provisioned", "volumes", low, mounts("provisioned")))
	eventually(t, "the claim", func(ctx context.Context) string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err.Error()
		}
		if claim.Annotations["volume.kubernetes.io/selected-node"] == "" {
			return "no node was selected"
		}
		return ""
	})
	// The test does the work of a provisioner: it creates the volume.
	provisioned := volume("provisioned", "provisioned", corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "1"},
	})
	provisioned.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
	c.create(t, provisioned)
	c.waitRunning(t, "provisioned")
}

// testDevices checks a pod with a ResourceClaim. On Kubernetes 1.36 and later, it also checks a pod
// that requests devices as an extended resource.
func testDevices(t *testing.T, c *cluster) {
	const extended = "example.com/accelerator"
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "accelerator"}}
	pods := []client.Object{newPod("claimant", "devices", low, func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "one", ResourceClaimName: ptr.To("one")}}
	})}
	if stage.Kubernetes(t).Minor >= extendedResources {
		class.Spec.ExtendedResourceName = ptr.To(extended)
		pods = append(pods, newPod("extended", "devices", low, asks(extended, "1")))
	}
	c.create(t,
		class,
		&resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "accelerators"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver:   "accelerator.example.com",
				Pool:     resourcev1.ResourcePool{Name: "pool", ResourceSliceCount: 1},
				NodeName: ptr.To(c.nodeOf(t, "devices").Name),
				Devices:  []resourcev1.Device{{Name: "first"}, {Name: "second"}},
			},
		},
		&resourcev1.ResourceClaim{
			ObjectMeta: meta("one"),
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "accelerator"},
			}}}},
		},
	)
	c.create(t, pods...)
	for _, pod := range pods {
		c.waitRunning(t, pod.GetName())
	}
}
