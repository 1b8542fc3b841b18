package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

func nodeInfo(n *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(n)
	return info
}

func TestFilterKeepsReservedRoom(t *testing.T) {
	t.Parallel()
	gpus := func(p *corev1.Pod, count string) *corev1.Pod {
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resourceMustParse(count)
		return p
	}
	big := node("n", "4")
	big.Status.Allocatable["example.com/gpu"] = resourceMustParse("4")
	crowded := node("n", "4")
	crowded.Status.Allocatable[corev1.ResourcePods] = resourceMustParse("2")
	cases := map[string]struct {
		node     *corev1.Node
		running  []*corev1.Pod
		reserved *corev1.Pod
		priority int32
		pod      *corev1.Pod
		// resources is the resource filter of the profile; nil if it checks all resources.
		resources snapshot.ResourceFilter
		want      bool
	}{
		"room beside the reservation":          {reserved: pod("s", "", "2", 5), priority: 5, pod: pod("p", "", "2", 5), want: true},
		"no room beside the reservation":       {reserved: pod("s", "", "3", 5), priority: 5, pod: pod("p", "", "2", 5)},
		"the reservation of a lower priority":  {reserved: pod("s", "", "3", 5), priority: 5, pod: pod("p", "", "2", 6), want: true},
		"the reservation of a higher priority": {reserved: pod("s", "", "3", 5), priority: 9, pod: pod("p", "", "2", 6)},
		"its own reservation":                  {reserved: pod("p", "", "4", 5), priority: 5, pod: pod("p", "", "4", 5), want: true},
		"the reservation of one that is there": {
			running: []*corev1.Pod{pod("s", "", "2", 5)}, reserved: pod("s", "", "2", 5), priority: 5, pod: pod("p", "", "2", 5), want: true,
		},
		"room that runs out with those that run": {
			running: []*corev1.Pod{pod("r", "", "1", 5)}, reserved: pod("s", "", "2", 5), priority: 5, pod: pod("p", "", "2", 5),
		},
		"devices": {
			node: big, reserved: gpus(pod("s", "", "1", 5), "3"), priority: 5, pod: gpus(pod("p", "", "1", 5), "2"),
		},
		"devices that the pod does not ask for": {
			node: big, reserved: gpus(pod("s", "", "1", 5), "4"), priority: 5, pod: pod("p", "", "1", 5), want: true,
		},
		"devices that a class maps, of a device plugin": {
			node: big, reserved: gpus(pod("s", "", "1", 5), "3"), priority: 5, pod: gpus(pod("p", "", "1", 5), "2"), resources: mapped{},
		},
		"devices that a class maps, on a node without the plugin": {
			reserved: gpus(pod("s", "", "1", 5), "3"), priority: 5, pod: gpus(pod("p", "", "1", 5), "2"), resources: mapped{}, want: true,
		},
		"the number of pods": {
			node: crowded, running: []*corev1.Pod{pod("r", "", "1", 5)}, reserved: pod("s", "", "1", 5), priority: 5, pod: pod("p", "", "1", 5),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sched := detached(&Inputs{Groups: &groups{}})
			sched.steps.step(engine.PodArrives{Pod: string(c.reserved.UID), Key: podKey(c.reserved)})
			if c.resources == nil {
				c.resources = countsAll{}
			}
			p := &Plugin{sched: sched, resources: c.resources}
			pi, err := framework.NewPodInfo(c.reserved)
			if err != nil {
				t.Fatal(err)
			}
			sched.steps.reserveRooms(podKey(c.reserved), []*engine.Reservation{{Pod: pi, UID: string(c.reserved.UID), Node: "n", Standing: workload.Standing{Priority: c.priority}}})
			if c.node == nil {
				c.node = node("n", "4")
			}
			state := framework.NewCycleState()
			if status := p.restrictFilter(state, c.pod); !status.IsSuccess() {
				t.Fatalf("PreFilter: %v", status)
			}
			if got := p.Filter(t.Context(), state, c.pod, nodeInfo(c.node, c.running...)); got.IsSuccess() != c.want {
				t.Errorf("Filter: %v, want success to be %v", got, c.want)
			}
		})
	}
}

// countsAll is a resource filter that checks all resources.
type countsAll struct{}

func (countsAll) Ignores(corev1.ResourceName) bool { return false }

func (countsAll) Delegates(corev1.ResourceName) bool { return false }

// mapped is a resource filter for a cluster in which a DeviceClass maps every resource.
type mapped struct{ countsAll }

func (mapped) Delegates(corev1.ResourceName) bool { return true }

func TestFilterIsSkippedWhereNothingIsKept(t *testing.T) {
	t.Parallel()
	p := &Plugin{sched: detached(&Inputs{Groups: &groups{}})}
	if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), pod("p", "", "1", 0), nil); !status.IsSkip() {
		t.Errorf("PreFilter: %v, want Skip", status)
	}
}

func TestFilterHoldsMembersToThePlan(t *testing.T) {
	t.Parallel()
	p := newRig(t).plugin
	state, member := framework.NewCycleState(), pod("p", "", "1", 0)
	result, status := p.confine(state, member, "b")
	if !status.IsSuccess() || result.NodeNames.Len() != 1 || !result.NodeNames.Has("b") {
		t.Fatalf("Confined to %v, %v", result, status)
	}
	for name, want := range map[string]fwk.Code{"a": fwk.UnschedulableAndUnresolvable, "b": fwk.Success} {
		if got := p.Filter(t.Context(), state, member, nodeInfo(node(name, "4"))); got.Code() != want {
			t.Errorf("Filter on %s: %v, want %v", name, got, want)
		}
	}
}
