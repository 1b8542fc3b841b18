package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestVolumeForEachMember has two members claim a volume each, bound when they are placed, of which each node has one. Both
// have room on either node.
func TestVolumeForEachMember(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(4, "a", "b")
	class := e.Namespace + "-local"
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	e.Create(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	})
	for _, short := range []string{"a", "b"} {
		e.Create(&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: e.NodeName(short)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size, AccessModes: once, StorageClassName: class,
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{e.NodeName(short)},
					}},
				}}}},
			},
		})
	}
	e.CreateGroup(stage.Group{Name: "g", MinCount: 2, Priority: "high"})
	for _, name := range []string{"g-0", "g-1"} {
		e.Create(&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size},
			},
		})
		e.create(podSpec{name: name, group: "g", cpus: 1, priority: "high", change: func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}}}
		}})
	}
	e.waitBound("g", 2)
	if a, b := e.Pod("g-0").Spec.NodeName, e.Pod("g-1").Spec.NodeName; a == b {
		t.Errorf("Both members are on %s, which has one volume", a)
	}
}

// TestDeviceForEachMember has three members claim a device each, of which one node has two and the other one. All have room
// on either node.
func TestDeviceForEachMember(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(4, "a", "b")
	class := e.Namespace + ".example.com"
	e.Create(&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + class + `"`},
		}}},
	})
	for short, devices := range map[string][]resourceapi.Device{"a": {{Name: "gpu-0"}, {Name: "gpu-1"}}, "b": {{Name: "gpu-0"}}} {
		e.Create(&resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: e.NodeName(short)},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: class, NodeName: ptr.To(e.NodeName(short)), Devices: devices,
				Pool: resourceapi.ResourcePool{Name: e.NodeName(short), ResourceSliceCount: 1},
			},
		})
	}
	e.Create(&resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "gpu"},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}}},
		}}},
	})
	e.gang(stage.Group{Name: "g", MinCount: 3, Priority: "high"}, 3, podSpec{cpus: 1, change: func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}})
	e.waitBound("g", 3)
	on := make(map[string]int)
	for _, pod := range e.pods(t.Context(), "g") {
		on[pod.Spec.NodeName]++
	}
	if on[e.NodeName("a")] != 2 || on[e.NodeName("b")] != 1 {
		t.Errorf("The members are on %v", on)
	}
}
