package scheduler

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestEventsThatWakeGangs: a gang is turned away before any filter is asked, so no filter's events have it tried again but for those that
// the plugin registers itself.
func TestEventsThatWakeGangs(t *testing.T) {
	t.Parallel()
	registered, err := (&Plugin{}).EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	events := make([]fwk.ClusterEvent, len(registered))
	for i := range registered {
		events[i] = registered[i].Event
	}
	for name, tt := range map[string]struct {
		event fwk.ClusterEvent
		want  bool
	}{
		"a node comes":                    {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, true},
		"a node goes, in a spread":        {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, true},
		"a node says that it lives":       {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeCondition}, false},
		"a volume is claimed":             {fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add}, true},
		"a driver has more storage":       {fwk.ClusterEvent{Resource: fwk.CSIStorageCapacity, ActionType: fwk.Update}, true},
		"a driver minds no capacity":      {fwk.ClusterEvent{Resource: fwk.CSIDriver, ActionType: fwk.Update}, true},
		"a driver has devices":            {fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add}, true},
		"a claim for devices is given up": {fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Update}, true},
		"a claim for devices goes":        {fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Delete}, true},
		"a class of devices comes":        {fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := framework.MatchAnyClusterEvent(tt.event, events); got != tt.want {
				t.Errorf("it is registered: %t, want %t", got, tt.want)
			}
		})
	}
}

// TestHintOfClaims: devices that are given to others are no reason to plan a gang again, and nothing is for a single pod.
func TestHintOfClaims(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	r.gangOf("g", 1, 0)
	free, allocated := &resourceapi.ResourceClaim{}, &resourceapi.ResourceClaim{}
	allocated.Status.Allocation = &resourceapi.AllocationResult{}
	for name, c := range map[string]struct {
		group         string
		before, after any
		want          fwk.QueueingHint
	}{
		"it is allocated":                 {"g", free, allocated, fwk.QueueSkip},
		"it is given up":                  {"g", allocated, free, fwk.Queue},
		"it is reserved for others":       {"g", allocated, allocated, fwk.Queue},
		"it goes":                         {"g", allocated, nil, fwk.Queue},
		"it comes":                        {"g", nil, free, fwk.Queue},
		"it is given up, of a single pod": {"", allocated, free, fwk.QueueSkip},
	} {
		if got, err := r.plugin.hintClaim(klog.Background(), pod("p", c.group, "1", 0), c.before, c.after); err != nil || got != c.want {
			t.Errorf("%s: %v (%v), want %v", name, got, err, c.want)
		}
	}
}
