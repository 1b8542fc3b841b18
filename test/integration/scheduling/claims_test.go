package scheduling

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestVolumeForEachMember tests a gang of two members with a volume claim each. Each node has one
// volume. Both members would fit on one node, but must run on different nodes because of the
// volumes.
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

// TestDeviceForEachMember tests a gang of three members with a device claim each. One node has two
// devices and the other has one. One node has enough CPUs for all members, but too few devices. So
// the members must be divided among both nodes.
func TestDeviceForEachMember(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(4, "a", "b")
	e.deviceClass()
	e.addDevices("a", "gpu-0", "gpu-1")
	e.addDevices("b", "gpu-0")
	e.deviceGang(3)
	e.waitBound("g", 3)
	on := make(map[string]int)
	for _, pod := range e.pods(t.Context(), "g") {
		on[pod.Spec.NodeName]++
	}
	if on[e.NodeName("a")] != 2 || on[e.NodeName("b")] != 1 {
		t.Errorf("The members are on %v", on)
	}
}

// TestDevicesThatComeLater tests a gang that waits for devices. The scheduler must retry it as soon
// as a driver publishes enough devices, or other pods release theirs. No change of a node or a pod
// causes the retry. If parallel tests cause other events, they may hide a lost wake-up, so also run
// this test alone.
func TestDevicesThatComeLater(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]func(e *env){
		"of a driver that starts": func(e *env) { e.addDevices("b", "gpu-0") },
		"of a pod that goes":      func(e *env) { e.remove("holds") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, stage.ReprieveGroups())
			e.AddNodes(4, "a", "b")
			e.deviceClass()
			e.addDevices("a", "gpu-0", "gpu-1")
			e.createRunning(podSpec{name: "holds", cpus: 1, priority: "high", change: claimDevice})
			e.deviceGang(2)
			e.WaitCondition("g", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
			// Wait until the scheduler has handled all events about the gang. After that, only the
			// new devices can cause a retry.
			e.staysUnbound("g")
			come(e)
			e.waitBound("g", 2)
		})
	}
}

// TestDevicesOnAFullNode tests a member whose device is allocated on a full node. The scheduler
// must place the gang with this member on another node.
func TestDevicesOnAFullNode(t *testing.T) {
	t.Parallel()
	e := newEnv(t, stage.ReprieveGroups())
	e.AddNodes(1, "a")
	e.createRunning(podSpec{name: "fills", cpus: 1, priority: "high"})
	e.deviceClass()
	e.addDevices("a", "gpu-0")
	e.CreateGroup(stage.Group{Name: "g", MinCount: 2, Priority: "high"})
	e.create(podSpec{name: "g-0", group: "g", cpus: 1, priority: "high", change: claimDevice})
	e.Eventually("the member's claim is allocated", func(ctx context.Context) string {
		var claims resourceapi.ResourceClaimList
		if err := e.Objects.List(ctx, &claims, client.InNamespace(e.Namespace)); err != nil || len(claims.Items) != 1 {
			return fmt.Sprintf("there are %d claims: %v", len(claims.Items), err)
		}
		claim := &claims.Items[0]
		claim.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: e.Namespace + ".example.com", Pool: e.NodeName("a"), Device: "gpu-0",
			}}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{e.NodeName("a")}},
			}}}},
		}
		if err := e.Objects.Status().Update(ctx, claim); err != nil {
			return err.Error()
		}
		return ""
	})
	e.AddNodes(4, "b")
	e.addDevices("b", "gpu-0", "gpu-1")
	e.create(podSpec{name: "g-1", group: "g", cpus: 1, priority: "high", change: claimDevice})
	e.waitBound("g", 2)
}

// deviceClass creates a DeviceClass that selects all devices of the test, and a template for claims
// of one device.
func (e *env) deviceClass() {
	e.Helper()
	class := e.Namespace + ".example.com"
	e.Create(&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + class + `"`},
		}}},
	})
	e.Create(&resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "gpu"},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}}},
		}}},
	})
}

// addDevices publishes devices of a node like a driver.
func (e *env) addDevices(short string, names ...string) {
	e.Helper()
	devices := make([]resourceapi.Device, len(names))
	for i, name := range names {
		devices[i].Name = name
	}
	e.Create(&resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: e.NodeName(short)},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: e.Namespace + ".example.com", NodeName: ptr.To(e.NodeName(short)), Devices: devices,
			Pool: resourceapi.ResourcePool{Name: e.NodeName(short), ResourceSliceCount: 1},
		},
	})
}

// deviceGang creates a gang with the name "g". Each member claims one device.
func (e *env) deviceGang(members int32) {
	e.Helper()
	e.gang(stage.Group{Name: "g", MinCount: members, Priority: "high"}, int(members), podSpec{cpus: 1, change: claimDevice})
}

// claimDevice adds a claim for one device to a pod.
func claimDevice(pod *corev1.Pod) {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
}
