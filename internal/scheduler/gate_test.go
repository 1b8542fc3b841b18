package scheduler

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestGateCaresForNoOtherPod checks that Gate registers only events of the gated pod itself. At any
// other event, the queue would check every gated pod.
func TestGateCaresForNoOtherPod(t *testing.T) {
	registered, err := (&Gate{}).EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var events []fwk.ClusterEvent
	for _, e := range registered {
		events = append(events, e.Event)
	}
	for name, tt := range map[string]struct {
		event fwk.ClusterEvent
		want  bool
	}{
		"a pod is deleted":             {fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, false},
		"a pod gets its node":          {fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, false},
		"the labels of another change": {fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodLabel}, false},
		"a node comes":                 {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, false},
		"its own labels change":        {fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}, true},
		"its own gates are gone":       {fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodSchedulingGatesEliminated}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := framework.MatchAnyClusterEvent(tt.event, events); got != tt.want {
				t.Errorf("it is asked about: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestAddGate checks that each profile with the plugin gets the gate exactly once.
func TestAddGate(t *testing.T) {
	set := func(names ...string) config.PluginSet {
		var out config.PluginSet
		for _, name := range names {
			out.Enabled = append(out.Enabled, config.Plugin{Name: name})
		}
		return out
	}
	for name, tt := range map[string]struct {
		plugins *config.Plugins
		want    []config.Plugin
	}{
		"no plugins":                       {nil, nil},
		"another profile":                  {&config.Plugins{MultiPoint: set("DefaultPreemption")}, nil},
		"everywhere":                       {&config.Plugins{MultiPoint: set(Name)}, set(GateName).Enabled},
		"point by point":                   {&config.Plugins{PreEnqueue: set("SchedulingGates", Name), PostFilter: set(Name)}, set("SchedulingGates", GateName).Enabled},
		"named already":                    {&config.Plugins{MultiPoint: set(Name), PreEnqueue: set(GateName)}, set(GateName).Enabled},
		"named already, at all its points": {&config.Plugins{MultiPoint: set(Name, GateName)}, set(GateName).Enabled},
	} {
		t.Run(name, func(t *testing.T) {
			profiles := []config.KubeSchedulerProfile{{Plugins: tt.plugins}}
			AddGate(profiles)
			var got []config.Plugin
			if profiles[0].Plugins != nil {
				got = profiles[0].Plugins.PreEnqueue.Enabled
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("preEnqueue (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBoundedGroup checks that a group that Reprieve created for pods gives no pod a higher
// priority, whether the group is a gang or not.
func TestBoundedGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		minCount int
		bounded  bool
		// lowWaits is true if the gate blocks the pod with the lower priority.
		lowWaits bool
		// highWaits is true if the gate blocks the pod with the higher priority.
		highWaits bool
	}{
		"a gang of users":                  {minCount: 2},
		"a gang that is made for pods":     {minCount: 2, bounded: true, lowWaits: true, highWaits: true},
		"no gang, and of users":            {},
		"no gang, and it is made for pods": {bounded: true, lowWaits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "4"))
			r.gangOf("g", c.minCount, 10).Bounded = c.bounded
			high, low := pod("high", "g", "1", 10), pod("low", "g", "1", 0)
			r.create(high, low)
			active := r.active()
			if slices.Contains(active, "low") != !c.lowWaits && c.minCount == 0 || (len(active) == 0) != c.highWaits {
				t.Errorf("%q are tried", active)
			}
			_, _, verdict := r.sched.gates.of(key("g"))
			if (verdict.Reason == v1alpha1.ReasonPriorityAbovePods) != c.highWaits {
				t.Errorf("the group hears %+v", verdict)
			}
			if v := gang.Outranked(r.sched.index.Derived, r.sched.index.Groups, low); (v != gang.Verdict{}) != c.lowWaits {
				t.Errorf("the lower pod hears %+v", v)
			}
		})
	}
}

// TestTriedWhileDevicesAreGivenBack checks a gang that is gated while its devices are released. An
// event in that time must retry the gang after the release.
func TestTriedWhileDevicesAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile bool
		released  int
		err       error
		later     bool
		atOnce    bool
	}{
		"nothing":                        {},
		"given back":                     {released: 1, atOnce: true},
		"something happened":             {meanwhile: true, later: true},
		"failed":                         {err: errors.New("the API server says no"), later: true},
		"something happened, failed":     {meanwhile: true, err: errors.New("the API server says no"), later: true},
		"something happened, given back": {meanwhile: true, released: 1, atOnce: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "1")...)
			g := r.gangOf("g", 2, 10)
			all := members("g", 2, "1", 10)
			r.create(all...)
			r.cycles()
			if len(r.active()) > 0 {
				t.Fatal("there is no room, and it is still tried")
			}
			m := r.sched.placements.Members(g.Key)
			pre := r.plugin.gangPreemptor(g, &m)
			running := r.sched.waits.StartEviction(pre.key)
			if tt.meanwhile {
				r.sched.retries.activate(all...)
			}
			if got := r.active(); len(got) > 0 {
				t.Fatalf("%v is tried meanwhile", got)
			}
			r.plugin.devicesReleased(t.Context(), &pre, running, tt.released, tt.err)
			if got := r.sched.waits.WaitsFor(pre.key, engine.RetryDue); got != tt.later {
				t.Errorf("it waits for another try: %v", got)
			}
			switch got := len(r.active()) > 0; {
			case tt.atOnce || tt.later:
				r.eventually("it is tried", func() bool { return len(r.active()) > 0 })
			case got:
				t.Error("it is tried although nothing happened")
			}
		})
	}
}
