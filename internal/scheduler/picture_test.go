package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/engine"
)

// carriedOut lets some orders succeed, and removes their victims.
func (r *rig) carriedOut(orders ...int) {
	r.t.Helper()
	for _, order := range orders {
		r.succeed(order)
		for _, victim := range r.evictor.orders[order].Victims {
			r.remove(victim)
		}
	}
}

// TestSpreadBesidePromised checks pods with spread constraints and reservations in several zones.
// All of them must be placed, one after the other. A filter that counted the nominations of only
// one node would reject them as skewed.
func TestSpreadBesidePromised(t *testing.T) {
	t.Parallel()
	zone := func(name, zone string) *corev1.Node {
		n := node(name, "2")
		n.Labels[corev1.LabelTopologyZone] = zone
		return n
	}
	r := newRig(t, zone("node-0", "a"), zone("node-1", "b"))
	for i := range 4 {
		r.create(on(pod(fmt.Sprint("low-", i), "", "1", 0), fmt.Sprint("node-", i%2)))
	}
	for i := range 4 {
		p := pod(fmt.Sprint("w-", i), "", "1", 5)
		p.Labels = map[string]string{"app": "w"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
		r.create(p)
		r.cycle()
	}
	if n := len(r.evictor.orders); n != 4 {
		t.Fatalf("Room is made %d times, want 4", n)
	}
	tried := make(map[string]int)
	r.meanwhile = func(p *corev1.Pod) { tried[p.Name]++ }
	r.carriedOut(0, 1, 2, 3)
	r.waitBound("w-0", "w-1", "w-2", "w-3")
	for name, n := range tried {
		if n != 1 {
			t.Errorf("%s is tried %d times once its room is there, want once", name, n)
		}
	}
	if n := len(r.evictor.orders); n != 4 {
		t.Errorf("Room is made %d times, want 4", n)
	}
	for name := range tried {
		if _, others := r.sched.records.Reveals("uid-" + name); len(others) > 0 {
			t.Errorf("The nominations of %v are still hidden from %s", others, name)
		}
	}
}

// TestRefusedWhereItIsPromised checks a pod that is rejected on its reserved node. After the first
// rejection, the pod must keep the reservation, because the rejecting plugin may not know yet that
// the victims are gone. The second rejection must release the reservation.
func TestRefusedWhereItIsPromised(t *testing.T) {
	t.Parallel()
	for name, times := range map[string]int{"once": 1, "for good": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "1")...)
			r.create(on(pod("v", "", "1", 0), "node-0"))
			p := pod("p", "", "1", 5)
			r.create(p)
			r.cycle()
			// This nomination exists only in the framework's memory, and keeps room from the pod.
			other := pod("other", "", "1", 5)
			other.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/stays"}}
			r.create(other)
			came := 0
			r.meanwhile = func(in *corev1.Pod) {
				if in.UID != p.UID {
					return
				}
				if came++; came <= times {
					r.nominate(other, "node-0")
				} else {
					r.plugin.handle.DeleteNominatedPodIfExists(other)
				}
			}
			r.carriedOut(0)
			r.eventually("it is refused", func() bool { r.cycles(); return came > 0 })
			if times == 1 {
				if at := r.sched.reserved.NodeOf(string(p.UID)); at != "node-0" && r.nodeOf("p") == "" {
					t.Errorf("It is promised %q after its first refusal", at)
				}
				r.waitBound("p")
			} else {
				r.eventually("its room goes to others", func() bool { r.cycles(); return r.sched.reserved.NodeOf(string(p.UID)) == "" })
			}
			if r.sched.records.IsElsewhere(string(p.UID)) {
				t.Error("It is still to look elsewhere")
			}
		})
	}
}

// halfGone makes a gang of two preempt on two full nodes, and removes the victims on one of them.
// Then it creates a small pod that fits on that node beside the reservation.
func (r *rig) halfGone(gang []*corev1.Pod, small *corev1.Pod) {
	r.t.Helper()
	r.create(on(pod("low-0", "", "4", 0), "node-0"), on(pod("low-1", "", "4", 0), "node-1"))
	r.gangOf("g", 2, 5)
	r.create(gang...)
	r.eventually("room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
	r.succeed(0)
	r.remove(on(pod("low-0", "", "4", 0), "node-0"))
	r.create(small)
}

// TestPromisedDevices checks that a device for a member with a reservation is not allocated to
// another pod on the node.
func TestPromisedDevices(t *testing.T) {
	t.Parallel()
	objects := append(nodes(2, "4"), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	claimed := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To(p.Name)}}
		objects = append(objects, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: p.Name, UID: "claim-" + p.UID, ResourceVersion: "1"},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
				Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
			}}}},
		})
		return p
	}
	all := members("g", 2, "3", 5)
	for _, p := range all {
		claimed(p)
	}
	small := claimed(pod("small", "", "1", 0))
	slice := func(i int) *resourceapi.ResourceSlice {
		name := fmt.Sprint("node-", i)
		return &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: ptr.To(name), Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
				Devices: []resourceapi.Device{{Name: "gpu-0"}},
			},
		}
	}
	objects = append(objects, slice(0), slice(1))
	r := newRig(t, objects...)
	r.halfGone(all, small)
	r.eventually("the small one has been tried", func() bool {
		r.cycles()
		now, err := r.client.CoreV1().Pods("ns").Get(t.Context(), "small", metav1.GetOptions{})
		return err == nil && (now.Spec.NodeName != "" || len(now.Status.Conditions) > 0)
	})
	if at := r.nodeOf("small"); at != "" {
		t.Fatalf("The small one has taken the device on %s", at)
	}
	// The pod looks at other nodes, and must still not get the device.
	r.sched.records.LooksElsewhere(string(small.UID))
	r.sched.retries.activate(small)
	r.eventually("it has looked elsewhere", func() bool { r.cycles(); return !r.sched.records.IsElsewhere(string(small.UID)) })
	if at := r.nodeOf("small"); at != "" {
		t.Fatalf("The small one has taken the device on %s, looking elsewhere", at)
	}
	// A driver publishes more devices.
	more := slice(0)
	more.Spec.Devices = append(more.Spec.Devices, resourceapi.Device{Name: "gpu-1"})
	more.Spec.Pool.Generation = 1
	if _, err := r.client.ResourceV1().ResourceSlices().Update(t.Context(), more, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.waitBound("small")
	r.remove(on(pod("low-1", "", "4", 0), "node-1"))
	r.waitBound("g-0", "g-1")
}

// TestGroupWithPrioritiesOfItsOwn checks a gang whose members have their own priorities. Its
// reservations and nominations must have the priority of the lowest member.
func TestGroupWithPrioritiesOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(2, "2")...)
	r.create(on(pod("low", "", "2", 0), "node-1"))
	g := r.gangOf("g", 2, 0)
	g.Priority, g.PodPriorities = nil, true
	r.groups.set(g)
	r.create(pod("g-0", "g", "2", 100), pod("g-1", "g", "2", 10))
	r.eventually("room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
	r.create(pod("p", "", "2", 50))
	r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf("p") == "node-0" })
}

// TestHiddenForACycle checks nominations that are hidden during the cycle of a confined pod. After
// the cycle, they are restored for pods that still have a reservation.
func TestHiddenForACycle(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "3")...)
	for i := range 3 {
		r.create(on(pod(fmt.Sprint("low-", i), "", "1", 0), "node-0"))
	}
	p, q, gone := pod("p", "", "1", 5), pod("q", "", "1", 5), pod("gone", "", "1", 5)
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 9, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
	}}
	for _, one := range []*corev1.Pod{p, q, gone} {
		r.create(one)
		r.cycle()
	}
	nominated := func() int { return len(r.plugin.handle.NominatedPodsForNode("node-0")) }
	if n := nominated(); n != 3 {
		t.Fatalf("%d pods are nominated, want 3", n)
	}
	r.snapshot()
	if _, status := r.plugin.confine(framework.NewCycleState(), p, "node-0"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if n := nominated(); n != 1 {
		t.Errorf("In its cycle %d pods are nominated, want its own", n)
	}
	r.sched.steps.step(engine.PodsRelease{Key: podKey(gone), Pods: []engine.UID{string(gone.UID)}})
	r.sched.cycles.outcomeKnown(p)
	if n := nominated(); n != 2 {
		t.Errorf("After its cycle %d pods are nominated, want 2", n)
	}
}

// TestPromisedVolumes checks that a local volume for a member with a reservation is not bound to
// another pod on the node.
func TestPromisedVolumes(t *testing.T) {
	t.Parallel()
	volume := func(name, node string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: "local", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
				}}}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
		}
	}
	objects := append(nodes(2, "4"), volume("pv-0", "node-0"), volume("pv-1", "node-1"), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	})
	claimed := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name},
		}}}
		objects = append(objects, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: "claim-" + p.UID},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To("local"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		})
		return p
	}
	all := members("g", 2, "3", 5)
	for _, p := range all {
		claimed(p)
	}
	small := claimed(pod("small", "", "1", 0))
	r := newRig(t, objects...)
	r.halfGone(all, small)
	r.eventually("the small one has been tried", func() bool {
		r.cycles()
		now, err := r.client.CoreV1().Pods("ns").Get(t.Context(), "small", metav1.GetOptions{})
		return r.sched.records.IsAssumed(string(small.UID)) || err == nil && len(now.Status.Conditions) > 0
	})
	if r.sched.records.IsAssumed(string(small.UID)) {
		t.Fatal("The small one has taken the volume")
	}
	if _, err := r.client.CoreV1().PersistentVolumes().Create(t.Context(), volume("pv-2", "node-0"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the small one has the volume that has come", func() bool { r.cycles(); return r.sched.records.IsAssumed(string(small.UID)) })
}
