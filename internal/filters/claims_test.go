package filters

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// localVolume returns a volume that only one node can use.
func localVolume(name, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: "local", PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/x"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

// TestVolumeForEachMember checks that two members never get the same volume.
func TestVolumeForEachMember(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		volumes []string
		members int
		want    core.Outcome
		nodes   []string
		// dataset is a volume claim that all members use; nil for none.
		dataset *corev1.PersistentVolumeClaim
	}{
		"one volume on each node, and a volume that all have": {
			volumes: []string{"node-0", "node-1"}, members: 2, want: core.Fits, nodes: []string{"node-0", "node-1"}, dataset: boundClaim("dataset", "none", "the-data"),
		},
		"one volume on each node, and one that is made for all": {
			volumes: []string{"node-0", "node-1"}, members: 2, want: core.Infeasible, dataset: unboundClaim("dataset", "made", ""),
		},
		"a volume less than there, and a volume that all have": {
			volumes: []string{"node-1"}, members: 2, want: core.Infeasible, dataset: boundClaim("dataset", "none", "the-data"),
		},
		"one volume on each node":  {volumes: []string{"node-0", "node-1"}, members: 2, want: core.Fits, nodes: []string{"node-0", "node-1"}},
		"two volumes on one node":  {volumes: []string{"node-1", "node-1"}, members: 2, want: core.Fits, nodes: []string{"node-1", "node-1"}},
		"a volume less than there": {volumes: []string{"node-1"}, members: 2, want: core.Infeasible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append(nodes(2, "8"), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner",
				VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			}, &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "made"}, Provisioner: driver, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			})
			if c.dataset != nil {
				anywhere := localVolume("the-data", "")
				anywhere.Spec.NodeAffinity, anywhere.Spec.StorageClassName = nil, "none"
				objects = append(objects, c.dataset, anywhere)
			}
			for i, node := range c.volumes {
				objects = append(objects, localVolume(fmt.Sprintf("pv-%d", i), node))
			}
			all := members("g", c.members, "1", 10)
			for _, p := range all {
				objects = append(objects, &corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: "claim-" + p.UID},
					Spec: corev1.PersistentVolumeClaimSpec{
						StorageClassName: ptr.To("local"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}},
					},
					Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
				})
				p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name},
				}}}
				if c.dataset != nil {
					claims(p, c.dataset.Name)
				}
			}
			w := newWorld(t, nil, objects...)
			// The first decision must leave no claims reserved, so the second is equal.
			for range 2 {
				d := w.decide(all...)
				if d.Outcome != c.want || !sameNodes(placedOn(d), c.nodes) {
					t.Fatalf("%s on %v: %s; want %s on %v", d.Outcome, placedOn(d), d.Message, c.want, c.nodes)
				}
			}
		})
	}
}

// TestVolumesWithoutBinding checks that attach limits count the own volumes of each member, even if
// no plugin binds them.
func TestVolumesWithoutBinding(t *testing.T) {
	t.Parallel()
	objects := append(nodes(2, "8"), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Provisioner: driver, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, attachLimit("node-0", 2), attachLimit("node-1", 2))
	all := members("g", 4, "1", 10)
	for _, p := range all {
		claims(p, p.Name)
		objects = append(objects, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("cloud")},
		})
		p.Spec.Volumes[0].Name = "data"
	}
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	disabled := &cfg.Profiles[0].Plugins.MultiPoint
	disabled.Enabled = slices.DeleteFunc(disabled.Enabled, func(p config.Plugin) bool { return p.Name == names.VolumeBinding })
	w := newWorldWith(t, kubescheduler.WithProfiles(cfg.Profiles...), objects...)
	d := w.decide(all...)
	if want := []string{"node-0", "node-0", "node-1", "node-1"}; d.Outcome != core.Fits || !sameNodes(placedOn(d), want) {
		t.Errorf("%s on %v: %s; want %v", d.Outcome, placedOn(d), d.Message, want)
	}
}

// devices returns the devices of one driver on a node.
func devices(node string, count int) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for i := range count {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	return s
}

// TestDeviceForEachMember checks that two members never get the same device, although filters treat
// all members of a class as equal.
func TestDeviceForEachMember(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		devices [2]int
		members int
		want    core.Outcome
		nodes   []string
	}{
		"one device on each node":  {devices: [2]int{1, 1}, members: 2, want: core.Fits, nodes: []string{"node-0", "node-1"}},
		"two and one":              {devices: [2]int{2, 1}, members: 3, want: core.Fits, nodes: []string{"node-0", "node-0", "node-1"}},
		"a device less than there": {devices: [2]int{2, 0}, members: 3, want: core.Infeasible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append(nodes(2, "8"), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
			for i, count := range c.devices {
				objects = append(objects, devices(fmt.Sprintf("node-%d", i), count))
			}
			all := members("g", c.members, "1", 10)
			for _, p := range all {
				objects = append(objects, claimOf(p))
				claimDevice(p)
			}
			w := newWorld(t, nil, objects...)
			for range 2 {
				d := w.decide(all...)
				if d.Outcome != c.want || !sameNodes(placedOn(d), c.nodes) {
					t.Fatalf("%s on %v: %s; want %s on %v", d.Outcome, placedOn(d), d.Message, c.want, c.nodes)
				}
			}
		})
	}
}

// TestDeviceSharedByMembers has a gang of two members that share a device claim. Without an
// allocation of the claim, only one member can be placed. If the gang needs both, it must get a
// message about the claim and preempt no pod.
func TestDeviceSharedByMembers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allocated bool
		minCount  int
		want      core.Outcome
		says      string
	}{
		"no devices yet":             {minCount: 2, want: core.Infeasible, says: "ResourceClaim shared has no devices yet"},
		"devices of one node":        {allocated: true, minCount: 2, want: core.Preempts},
		"one of them does, to begin": {minCount: 1, want: core.Preempts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := members("g", 2, "2", 10)
			claim := claimOf(all[0])
			claim.Name, claim.OwnerReferences = "shared", nil
			for _, p := range all {
				p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
			}
			if c.allocated {
				claim.Status.Allocation = &resourceapi.AllocationResult{}
			}
			w := newWorld(t, nil, append(nodes(2, "4"), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, claim, devices("node-0", 1),
				on(pod("low-0", "", "4", 0), "node-0"), on(pod("low-1", "", "4", 0), "node-1"))...)
			w.minCount = c.minCount
			if d := w.decide(all...); d.Outcome != c.want || !strings.Contains(d.Message, c.says) {
				t.Errorf("%s: %s; want %s, %q", d.Outcome, d.Message, c.want, c.says)
			}
		})
	}
}

// TestDeviceOfAPromisedPod checks that the devices of a pod with a reservation are not free for
// other pods. No pod may be evicted in vain for such devices.
func TestDeviceOfAPromisedPod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		devices [2]int
		// claims is true if the pod with the reservation claims a device.
		claims bool
		want   core.Outcome
		on     string
	}{
		"the only one":             {devices: [2]int{1, 0}, claims: true, want: core.Infeasible},
		"one of two":               {devices: [2]int{2, 0}, claims: true, want: core.Preempts, on: "node-0"},
		"there is another one":     {devices: [2]int{1, 1}, claims: true, want: core.Preempts, on: "node-1"},
		"one that it does not ask": {devices: [2]int{1, 0}, want: core.Preempts, on: "node-0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, p := pod("first", "", "2", 9), pod("p", "", "2", 5)
			first.Status.NominatedNodeName = "node-0"
			objects := append(nodes(2, "4"), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, claimOf(p),
				on(pod("low-0", "", "2", 0), "node-0"), on(pod("low-1", "", "4", 0), "node-1"))
			if claimDevice(p); c.claims {
				claimDevice(first)
				objects = append(objects, claimOf(first))
			}
			for i, count := range c.devices {
				objects = append(objects, devices(fmt.Sprintf("node-%d", i), count))
			}
			w := newWorld(t, nil, objects...)
			for range 2 {
				d, _, err := w.oracleBeside([]*corev1.Pod{first}, p).Decide()
				if err != nil {
					t.Fatal(err)
				}
				if on := placedOn(&d); d.Outcome != c.want || c.on != "" && !slices.Equal(on, []string{c.on}) {
					t.Fatalf("%s on %v: %s; want %s on %q", d.Outcome, on, d.Message, c.want, c.on)
				}
			}
			// All claims must be unreserved again.
			if d := w.decide(first); c.claims && d.Outcome == core.Infeasible {
				t.Errorf("the device is not there for the pod that is promised room: %s", d.Message)
			}
		})
	}
}

// TestDeviceSharedWithAPromisedPod checks that a pod can be placed next to a pod with a reservation
// if they share a device claim.
func TestDeviceSharedWithAPromisedPod(t *testing.T) {
	t.Parallel()
	first, p := pod("first", "", "2", 9), pod("p", "", "2", 5)
	first.Status.NominatedNodeName = "node-0"
	claim := claimOf(first)
	for _, one := range []*corev1.Pod{first, p} {
		one.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
	}
	claim.OwnerReferences = nil
	w := newWorld(t, nil, append(nodes(2, "4"), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, claim, devices("node-0", 1),
		on(pod("low-0", "", "2", 0), "node-0"), on(pod("low-1", "", "4", 0), "node-1"))...)
	d, _, err := w.oracleBeside([]*corev1.Pod{first}, p).Decide()
	if err != nil {
		t.Fatal(err)
	}
	if on := placedOn(&d); d.Outcome != core.Preempts || !slices.Equal(on, []string{"node-0"}) {
		t.Errorf("%s on %v: %s", d.Outcome, on, d.Message)
	}
}

// TestHeldDevices has a gang with a device claim that may still be allocated from an earlier cycle.
// The devices must be released, so that the gang can be placed on any node. Devices that are
// reserved for another pod must stay allocated.
func TestHeldDevices(t *testing.T) {
	t.Parallel()
	another := resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "another", UID: "another"}
	for name, c := range map[string]struct {
		allocated bool
		reserved  []resourceapi.ResourceClaimConsumerReference
		want      bool
	}{
		"allocated, and reserved for none":    {allocated: true, want: true},
		"allocated, and reserved for the pod": {allocated: true, reserved: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "g-1", UID: "uid-g-1"}}, want: true},
		"allocated, and reserved for another": {allocated: true, reserved: []resourceapi.ResourceClaimConsumerReference{another}},
		"not allocated":                       {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := members("g", 2, "1", 10)
			objects := append(nodes(2, "8"), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, devices("node-0", 1), devices("node-1", 2))
			for _, p := range all {
				claimDevice(p)
			}
			claim := claimOf(all[1])
			if claim.Status.ReservedFor = c.reserved; c.allocated {
				claim.Status.Allocation = allocatedOn("node-0")
			}
			w := newWorld(t, nil, append(objects, claimOf(all[0]), claim)...)
			held, err := FindHeldDevices(t.Context(), w.profile, all)
			if err != nil || held.Empty() == c.want {
				t.Fatalf("There are none: %t (%v), want the opposite of %t", held.Empty(), err, c.want)
			}
			if got, err := held.Release(t.Context()); err != nil || (got == 1) != c.want {
				t.Errorf("%d are given back (%v), want one: %t", got, err, c.want)
			}
			now, err := w.client.ResourceV1().ResourceClaims(claim.Namespace).Get(t.Context(), claim.Name, metav1.GetOptions{})
			if err != nil || (now.Status.Allocation != nil) != (c.allocated && !c.want) {
				t.Errorf("The claim is allocated to %+v (%v)", now.Status.Allocation, err)
			}
		})
	}
}

// allocatedOn returns an allocation of the device on a node.
func allocatedOn(node string) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: "gpu", Driver: "gpu.example.com", Pool: node, Device: "gpu-0",
		}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}
}

// claimDevice adds a device claim to a pod.
func claimDevice(p *corev1.Pod) {
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To(p.Name)}}
}

// claimOf returns the claim of a pod that was created from a template.
func claimOf(p *corev1.Pod) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: types.UID("claim-" + p.Name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}},
		},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}
}
