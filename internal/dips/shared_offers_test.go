package dips

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// TestSharedOffersOf checks the counts of devices by the nodes that can use them.
func TestSharedOffersOf(t *testing.T) {
	t.Parallel()
	onAll := slice("a", "s0", 1, 2)
	onAll.Spec.NodeName, onAll.Spec.AllNodes = nil, ptr.To(true)
	each := slice("a", "s1", 1, 3)
	each.Spec.NodeName, each.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
	each.Spec.Devices[0].NodeName, each.Spec.Devices[1].AllNodes = ptr.To("b"), ptr.To(true)
	older := onAll.DeepCopy()
	older.Spec.Pool.Generation = 0
	for name, tt := range map[string]struct {
		slices []*resourceapi.ResourceSlice
		want   map[string]int
	}{
		"nothing":               {want: map[string]int{}},
		"all nodes":             {slices: []*resourceapi.ResourceSlice{onAll, older}, want: map[string]int{"": 2}},
		"each device has nodes": {slices: []*resourceapi.ResourceSlice{each, onAll}, want: map[string]int{"": 3, "b": 1}},
		"a tainted device": {
			slices: []*resourceapi.ResourceSlice{tainted(onAll, resourceapi.DeviceTaintEffectNoSchedule)}, want: map[string]int{"": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(map[string]int)
			for key, offer := range sharedOffersOf(tt.slices) {
				got[key.reach] = offer.count
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("The offers are %v, want %v", got, tt.want)
			}
		})
	}
}

// TestSharedWithdrawal checks that a withdrawal of a shared offer is a dip of the nodes that can
// use the devices, until it ends or the time has passed.
func TestSharedWithdrawal(t *testing.T) {
	t.Parallel()
	d, began := New(), time.Unix(0, 0)
	published := []*resourceapi.ResourceSlice{selected(slice("a", "s0", 1, 2), "a")}
	d.latestShared = func() sharedOffers { return sharedOffersOf(published) }
	for _, name := range []string{"a", "b"} {
		d.Follow(&corev1.Node{}, node(name, "1"), began)
	}
	d.FollowShared(began)
	all := published
	published = nil
	d.FollowShared(began.Add(time.Second))
	if !d.isDown("a") || d.isDown("b") {
		t.Error("The dip is not one of node a alone")
	}
	published = all
	if d.FollowShared(began.Add(2 * time.Second)); d.isDown("a") {
		t.Error("Node a has a dip after the devices are back")
	}
	published = nil
	d.FollowShared(began.Add(3 * time.Second))
	if over := d.Over(began.Add(3*time.Second + Duration)); len(over) != 1 || over[0] != "a" || d.isDown("a") {
		t.Errorf("The dips of %v are over, want a", over)
	}
}
