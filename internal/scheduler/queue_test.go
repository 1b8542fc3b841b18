package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestEventsThatWakeGangs checks the registered events. A gang is rejected before any filter runs,
// so the events that the filters register do not retry it.
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

// TestHintOfClaims checks which changes of claims retry a workload. A gang with claims is retried
// if devices are released, or if one of its own claims changes. An allocation for another pod must
// not retry the gang. A gang without claims, and a single pod, must not be retried by any such
// change.
func TestHintOfClaims(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(1, "8")...)
	pods := map[string]*corev1.Pod{"": pod("p", "", "1", 0)}
	for _, group := range []string{"claims", "plain"} {
		r.gangOf(group, 1, 0)
		member := members(group, 1, "1", 0)[0]
		r.create(member)
		pods[group] = member.DeepCopy()
	}
	r.sched.gangs.SetPodSensitive(gangKey(key("claims")), true)
	claim := func(name string, isAllocated bool) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if name == "own" {
			c.OwnerReferences = []metav1.OwnerReference{{UID: pods["claims"].UID}}
		}
		if isAllocated {
			c.Status.Allocation = &resourceapi.AllocationResult{}
		}
		return c
	}
	for name, c := range map[string]struct {
		group         string
		before, after any
		want          fwk.QueueingHint
	}{
		"another is allocated":               {"claims", claim("other", false), claim("other", true), fwk.QueueSkip},
		"another is reserved":                {"claims", claim("other", true), claim("other", true), fwk.QueueSkip},
		"another comes":                      {"claims", nil, claim("other", false), fwk.QueueSkip},
		"another goes that had none":         {"claims", claim("other", false), nil, fwk.QueueSkip},
		"another is given back":              {"claims", claim("other", true), claim("other", false), fwk.Queue},
		"another goes":                       {"claims", claim("other", true), nil, fwk.Queue},
		"its own comes":                      {"claims", nil, claim("own", false), fwk.Queue},
		"its own changes":                    {"claims", claim("own", true), claim("own", true), fwk.Queue},
		"given back, and the gang has none":  {"plain", claim("other", true), nil, fwk.QueueSkip},
		"given back, and it is a single pod": {"", claim("other", true), nil, fwk.QueueSkip},
	} {
		if got, err := r.plugin.hintClaim(klog.Background(), pods[c.group], c.before, c.after); err != nil || got != c.want {
			t.Errorf("%s: %v (%v), want %v", name, got, err, c.want)
		}
	}
}
