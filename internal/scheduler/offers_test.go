package scheduler

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
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

func TestOffersOf(t *testing.T) {
	t.Parallel()
	csi := &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disk.example.com"}}}}
	old, older, now := slice("a", "s0", 1, 4), slice("a", "s1", 0, 8), slice("a", "s2", 2, 2)
	for name, tt := range map[string]struct {
		slices []*resourceapi.ResourceSlice
		csi    *storagev1.CSINode
		want   offers
	}{
		"nothing":                 {want: offers{}},
		"a volume driver":         {csi: csi, want: offers{"volumes disk.example.com": 1}},
		"a pool in two slices":    {slices: []*resourceapi.ResourceSlice{old, slice("a", "s3", 1, 3)}, want: offers{"devices gpu.example.com/a": 7}},
		"the newest generation":   {slices: []*resourceapi.ResourceSlice{old, now, older}, want: offers{"devices gpu.example.com/a": 2}},
		"a slice without devices": {slices: []*resourceapi.ResourceSlice{slice("a", "s4", 1, 0)}, want: offers{"devices gpu.example.com/a": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := offersOf(tt.slices, tt.csi); !maps.Equal(got, tt.want) {
				t.Errorf("The offers are %v, want %v", got, tt.want)
			}
		})
	}
}

// TestWithdrawals checks when a withdrawn offer counts as a dip. Each step sets the count of one
// pool.
func TestWithdrawals(t *testing.T) {
	t.Parallel()
	type at struct {
		after, count int
		// dips is true if the node has a dip after the step.
		dips bool
	}
	for name, steps := range map[string][]at{
		"as many as before":     {{1, 4, false}},
		"more":                  {{1, 8, false}},
		"fewer for good":        {{1, 2, true}, {10, 2, true}, {11, 2, false}, {12, 2, false}},
		"none for a moment":     {{1, 0, true}, {5, 4, false}},
		"fewer, then some more": {{1, 0, true}, {5, 3, true}, {11, 3, false}},
		"fewer and fewer":       {{1, 3, true}, {9, 1, true}, {11, 1, false}},
		"again":                 {{1, 3, true}, {5, 4, false}, {6, 3, true}, {15, 3, true}, {16, 3, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, began, count := newDips(), time.Unix(0, 0), 4
			d.latestOffers = func(string) offers { return offers{"pool": count} }
			a := node("a", "1")
			d.followOffers("a", began)
			if len(d.published) > 0 {
				t.Fatal("The offers of a node are recorded before the node is known")
			}
			d.follow(&corev1.Node{}, a, began)
			for _, step := range steps {
				now := began.Add(time.Duration(step.after) * time.Second)
				count = step.count
				d.followOffers("a", now)
				d.over(now)
				if _, dips := d.endOf("a"); dips != step.dips {
					t.Errorf("After %d s, there is a dip: %t", step.after, dips)
				}
			}
			d.forget("a")
			if d.len() > 0 || len(d.published) > 0 {
				t.Error("A deleted node has dips or offers")
			}
		})
	}
}

// TestWithdrawalBeforeTheHandler checks that a decision sees a withdrawal that the handler has not
// reported yet.
func TestWithdrawalBeforeTheHandler(t *testing.T) {
	t.Parallel()
	d, began, count, a := newDips(), time.Unix(100, 0), 4, node("a", "1")
	d.latest = func(string) (*corev1.Node, time.Time) { return a, began }
	d.latestOffers = func(string) offers { return offers{"pool": count} }
	d.follow(&corev1.Node{}, a, began)
	count = 0
	if end, dips := d.endOf("a"); !dips || !end.Equal(began.Add(dipTime)) {
		t.Errorf("There is a dip: %t, until %v", dips, end)
	}
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
				r.sched.dips.lastFor(lasts)
				published := r.client.ResourceV1().ResourceSlices()
				if err := published.Delete(t.Context(), "node-0", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				r.eventually("the dip is followed", func() bool { return r.sched.dips.len() == 1 })
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
				r.eventually("the dip is over", func() bool { return r.sched.dips.len() == 0 })
				r.remove(r.evictor.orders[0].Victims["uid-v"])
				r.waitBound("p")
				if n := len(r.evictor.orders); n != 1 {
					t.Errorf("%d preemptions, want 1", n)
				}
			})
		}
	}
}

// waitingForDevice is waitingForRoom with a device on each of two nodes, and a preemptor that
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
