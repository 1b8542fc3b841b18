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

// TestDriverThatRestarts checks a preemptor that claims a device and waits for its victim on
// node-0. If the node's ResourceSlice is deleted for a moment, the preemptor must keep its room and
// its only victim. If the ResourceSlice stays deleted, the preemptor evicts a pod on the other node.
func TestDriverThatRestarts(t *testing.T) {
	t.Parallel()
	for name, recovers := range map[string]bool{"for a moment": true, "for good": false} {
		for kind, group := range map[string]string{"a pod": "", "a gang": "g"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				r, p := waitingForDevice(t, group)
				lasts := time.Hour
				if !recovers {
					lasts = 2 * time.Second
				}
				r.sched.dips.SetDuration(lasts)
				published := r.client.ResourceV1().ResourceSlices()
				if err := published.Delete(t.Context(), "node-0", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				r.eventually("the dip is followed", func() bool { return r.sched.dips.Len() == 1 })
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
				if _, err := published.Create(t.Context(), slice("node-0", "node-0", 1, 1), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				r.eventually("the dip is over", func() bool { return r.sched.dips.Len() == 0 })
				r.remove(r.evictor.orders[0].Victims["uid-v"])
				r.waitBound("p")
				if n := len(r.evictor.orders); n != 1 {
					t.Errorf("%d preemptions, want 1", n)
				}
			})
		}
	}
}

// waitingForDevice is like waitingForRoom, but each of two nodes has a device, and the preemptor
// claims one.
func waitingForDevice(t *testing.T, group string) (*rig, *corev1.Pod) {
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
		slice("node-0", "node-0", 0, 1), slice("node-1", "node-1", 0, 1),
	})
}
