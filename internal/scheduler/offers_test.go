package scheduler

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// slice returns a ResourceSlice of a node with a number of devices.
func slice(node, name string, generation int64, devices int) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1, Generation: generation},
		},
	}
	for i := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: "gpu-" + string(rune('0'+i))})
	}
	return s
}

// tainted returns a slice whose first device has a taint.
func tainted(s *resourceapi.ResourceSlice, effect resourceapi.DeviceTaintEffect) *resourceapi.ResourceSlice {
	s = s.DeepCopy()
	s.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "gpu.example.com/unhealthy", Effect: effect}}
	return s
}

// selected returns a slice for the nodes with a hostname, in place of a nodeName.
func selected(s *resourceapi.ResourceSlice, hostname string) *resourceapi.ResourceSlice {
	s = s.DeepCopy()
	s.Spec.NodeName = nil
	s.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname}},
	}}}}
	return s
}

// TestDriverThatRestarts checks a preemptor that claims a device and waits for its victim on
// node-0. If the driver withdraws the device for a moment, the preemptor must keep its room and its
// only victim. If the device stays away, the preemptor evicts a pod on the other node.
func TestDriverThatRestarts(t *testing.T) {
	t.Parallel()
	local := slice("node-0", "node-0", 0, 1)
	for how, c := range map[string]struct{ before, during *resourceapi.ResourceSlice }{
		"the slice is deleted":              {before: local},
		"a slice with a selector is gone":   {before: selected(local, "node-0")},
		"the device is tainted":             {before: local, during: tainted(local, resourceapi.DeviceTaintEffectNoSchedule)},
		"a device with a selector is taken": {before: selected(local, "node-0"), during: tainted(selected(local, "node-0"), resourceapi.DeviceTaintEffectNoExecute)},
	} {
		for name, recovers := range map[string]bool{"for a moment": true, "for good": false} {
			for kind, group := range map[string]string{"a pod": "", "a gang": "g"} {
				t.Run(how+", "+name+", "+kind, func(t *testing.T) {
					t.Parallel()
					restartsDriver(t, c.before, c.during, group, recovers)
				})
			}
		}
	}
}

// restartsDriver replaces the slice of node-0. during is nil if the slice is deleted.
func restartsDriver(t *testing.T, before, during *resourceapi.ResourceSlice, group string, recovers bool) {
	t.Helper()
	r, p := waitingForDevice(t, group, before)
	lasts := time.Hour
	if !recovers {
		lasts = 2 * time.Second
	}
	r.sched.dips.SetDuration(lasts)
	begun := time.Now()
	r.publish(before.Name, during)
	// On a slow machine, a short dip may end before this goroutine sees it.
	r.eventually("the dip is followed", func() bool { return r.isDown("node-0") || time.Since(begun) > lasts })
	if r.isDown("node-1") {
		t.Error("the other node has a dip")
	}
	r.sched.releases.review(r.sched.index.KeyOf(p))
	if !recovers {
		r.eventually("other room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 1 })
		if got := r.taken(1); !slices.Equal(got, []string{"dearer"}) {
			t.Errorf("%v is taken then", got)
		}
		return
	}
	r.never("it gives up its room", 2*time.Second, func() bool {
		r.cycles()
		at, _ := r.reservedOn(p.UID)
		return at != "node-0" || len(r.evictor.orders) > 1
	})
	r.publish(before.Name, before)
	r.eventually("the dip is over", func() bool { return !r.isDown("node-0") })
	// The framework may not know the device yet.
	r.remove(r.evictor.orders[0].Victims["uid-v"])
	r.waitBound("p")
	if n := len(r.evictor.orders); n != 1 {
		t.Errorf("%d preemptions, want 1", n)
	}
}

// TestDriverDuringADecision checks the same preemptor if its driver withdraws the device, or brings
// it back, between a decision and the time when the decision is applied.
func TestDriverDuringADecision(t *testing.T) {
	t.Parallel()
	local := slice("node-0", "node-0", 0, 1)
	for name, c := range map[string]struct{ seen, then *resourceapi.ResourceSlice }{
		"it withdraws the device":   {seen: local},
		"it brings the device back": {then: local},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := waitingForDevice(t, "g", local)
			r.sched.dips.SetDuration(time.Hour)
			follow := func(s *resourceapi.ResourceSlice) {
				r.publish("node-0", s)
				r.eventually("the dips follow", func() bool { return r.isDown("node-0") == (s == nil) })
			}
			follow(c.seen)
			r.snapshot()
			known := r.sched.placements.Members(key("g"))
			g, _ := r.groups.Group(key("g"))
			made, err := r.plugin.decide(t.Context(), r.plugin.gangPreemptor(g, &known))
			if err != nil {
				t.Fatal(err)
			}
			if c.then == nil {
				r.sched.dips.SetDuration(time.Second)
			}
			follow(c.then)
			r.plugin.carryOut(t.Context(), p, made)
			if at, _ := r.reservedOn(p.UID); at != "node-0" || len(r.evictor.orders) != 1 {
				t.Fatalf("room is reserved on %q, with %d preemptions", at, len(r.evictor.orders))
			}
			if c.then == nil {
				r.eventually("other room is made", func() bool { r.cycles(); return len(r.evictor.orders) > 1 })
				return
			}
			r.remove(r.evictor.orders[0].Victims["uid-v"])
			r.waitBound("p")
			if n := len(r.evictor.orders); n != 1 {
				t.Errorf("%d preemptions, want 1", n)
			}
		})
	}
}

// publish replaces a ResourceSlice; with nil it deletes the slice.
func (r *rig) publish(name string, now *resourceapi.ResourceSlice) {
	r.t.Helper()
	published := r.client.ResourceV1().ResourceSlices()
	_, err := published.Get(r.t.Context(), name, metav1.GetOptions{})
	switch {
	case now == nil:
		err = published.Delete(r.t.Context(), name, metav1.DeleteOptions{})
	case err == nil:
		_, err = published.Update(r.t.Context(), now.DeepCopy(), metav1.UpdateOptions{})
	default:
		_, err = published.Create(r.t.Context(), now.DeepCopy(), metav1.CreateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// isDown reports whether a node has a dip.
func (r *rig) isDown(node string) bool {
	_, dips := r.sched.dips.EndOf(node)
	return dips
}

// waitingForDevice is like waitingForRoom, but each of two nodes has a device, and the preemptor
// claims one. first is the ResourceSlice of node-0.
func waitingForDevice(t *testing.T, group string, first *resourceapi.ResourceSlice) (*rig, *corev1.Pod) {
	t.Helper()
	p := pod("p", group, "4", 10)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("p")}}
	return waitingFor(t, p, []*corev1.Node{node("node-1", "4")}, []runtime.Object{
		&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		&resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "claim-p", ResourceVersion: "1"},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
				Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
			}}}},
		},
		first.DeepCopy(), slice("node-1", "node-1", 0, 1),
	})
}
