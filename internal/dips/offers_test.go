package dips

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestOffersOf(t *testing.T) {
	t.Parallel()
	csi := &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disk.example.com"}}}}
	old, older, now := slice("a", "s0", 1, 4), slice("a", "s1", 0, 8), slice("a", "s2", 2, 2)
	for name, tt := range map[string]struct {
		slices []*resourceapi.ResourceSlice
		csi    *storagev1.CSINode
		want   Offers
	}{
		"nothing":               {want: Offers{}},
		"a volume driver":       {csi: csi, want: Offers{"volumes disk.example.com": 1}},
		"a pool in two slices":  {slices: []*resourceapi.ResourceSlice{old, slice("a", "s3", 1, 3)}, want: Offers{"devices gpu.example.com/a": 7}},
		"the newest generation": {slices: []*resourceapi.ResourceSlice{old, now, older}, want: Offers{"devices gpu.example.com/a": 2}},
		"a tainted device": {
			slices: []*resourceapi.ResourceSlice{tainted(slice("a", "s5", 1, 3), resourceapi.DeviceTaintEffectNoExecute)},
			want:   Offers{"devices gpu.example.com/a": 2},
		},
		"a taint without an effect": {
			slices: []*resourceapi.ResourceSlice{tainted(slice("a", "s5", 1, 3), resourceapi.DeviceTaintEffectNone)},
			want:   Offers{"devices gpu.example.com/a": 3},
		},
		"a slice without devices": {slices: []*resourceapi.ResourceSlice{slice("a", "s4", 1, 0)}, want: Offers{"devices gpu.example.com/a": 0}},
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
			d, began, count := New(), time.Unix(0, 0), 4
			d.latestOffers = func(string) Offers { return Offers{"pool": count} }
			a := node("a", "1")
			d.FollowOffers("a", began)
			if len(d.published) > 0 {
				t.Fatal("The offers of a node are recorded before the node is known")
			}
			d.Follow(&corev1.Node{}, a, began)
			for _, step := range steps {
				now := began.Add(time.Duration(step.after) * time.Second)
				count = step.count
				d.FollowOffers("a", now)
				d.Over(now)
				if _, dips := d.EndOf("a"); dips != step.dips {
					t.Errorf("After %d s, there is a dip: %t", step.after, dips)
				}
			}
			d.Forget("a")
			if len(d.nodes) > 0 || len(d.published) > 0 {
				t.Error("A deleted node has dips or offers")
			}
		})
	}
}

// TestWithdrawalBeforeTheHandler checks that a decision sees a withdrawal that the handler has not
// reported yet.
func TestWithdrawalBeforeTheHandler(t *testing.T) {
	t.Parallel()
	d, began, count, a := New(), time.Unix(100, 0), 4, node("a", "1")
	d.latest = func(string) (*corev1.Node, time.Time) { return a, began }
	d.latestOffers = func(string) Offers { return Offers{"pool": count} }
	d.Follow(&corev1.Node{}, a, began)
	count = 0
	if end, dips := d.EndOf("a"); !dips || !end.Equal(began.Add(Duration)) {
		t.Errorf("There is a dip: %t, until %v", dips, end)
	}
}

// isDown reports whether a node has a dip.
func (d *Dips) isDown(node string) bool {
	_, dips := d.EndOf(node)
	return dips
}
