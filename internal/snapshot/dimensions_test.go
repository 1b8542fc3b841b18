package snapshot

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/core"
)

const gpu corev1.ResourceName = "example.com/gpu"

// asking adds a request for a resource to a pod.
func asking(p *corev1.Pod, name corev1.ResourceName, count string) *corev1.Pod {
	p.Spec.Containers[0].Resources.Requests[name] = quantity(count)
	return p
}

// describe returns a preemptor of one pod, in the form of the core.
func describe(t *testing.T, v *View, p *corev1.Pod, filter ResourceFilter) *core.Preemptor {
	t.Helper()
	classes, err := ClassesOf([]*corev1.Pod{p}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &core.Preemptor{Namespace: "ns", Name: p.Name, UID: string(p.UID), MinCount: 1, Classes: v.Describe(classes, filter)}
}

// TestDelegatedRoom checks the room for a resource on a node that does not list it. There is room
// as long as a DeviceClass maps the resource. Adding or removing the DeviceClass must cause
// unchanged nodes to be read again.
func TestDelegatedRoom(t *testing.T) {
	t.Parallel()
	everywhere, nowhere := map[string]int{string(gpu): 2}, map[string]int(nil)
	cases := map[string]struct {
		before, now bool
		wantReads   int
		wantShort   map[string]int
	}{
		"no class":          {wantShort: everywhere},
		"a class that came": {now: true, wantReads: 2, wantShort: nowhere},
		"a class":           {before: true, now: true, wantShort: nowhere},
		"a class that went": {before: true, wantReads: 2, wantShort: everywhere},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			plugged := node("plugged", "4")
			plugged.Status.Allocatable[gpu] = quantity("1")
			s.cache.AddNode(klog.Background(), plugged)
			s.addNodes("bare")
			s.addPods(asking(on(pod("a", "", "1", 0), "plugged"), gpu, "1"), asking(on(pod("b", "", "1", 0), "bare"), gpu, "1"))
			s.facts.delegated[gpu] = c.before
			if err := s.level(); err != nil {
				t.Fatal(err)
			}
			freeing := s.kept.Changes().Freeing
			s.facts.delegated[gpu] = c.now
			v := s.view()
			if reads, frees := s.facts.reads, s.kept.Changes().Freeing > freeing; reads != c.wantReads || frees != (c.wantReads > 0) {
				t.Errorf("%d pods are read, and room may have come is %t; want %d", reads, frees, c.wantReads)
			}
			if got, _ := v.Cluster.ShortOf(describe(t, v, asking(pod("p", "", "1", 0), gpu, "1000"), countsAll{})); !maps.Equal(got, c.wantShort) {
				t.Errorf("%v are short, want %v", got, c.wantShort)
			}
			// The state for people and programs leaves out delegated room.
			for _, n := range s.kept.State(nil).Nodes {
				free, all := map[string]int64{"plugged": 0, "bare": -1}[n.Name], map[string]int64{"plugged": 1, "bare": 0}[n.Name]
				if n.Free[string(gpu)] != free || n.Allocatable[string(gpu)] != all {
					t.Errorf("%s has %d of %d, want %d of %d", n.Name, n.Free[string(gpu)], n.Allocatable[string(gpu)], free, all)
				}
			}
		})
	}
}

// TestRequests checks that a request leaves out resources that an extender or DynamicResources
// decides about on every node.
func TestRequests(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		name      corev1.ResourceName
		filter    leaves
		wantCount int64
		wantLacks bool
	}{
		"what some node has":                             {name: gpu, wantCount: 3},
		"what some node has, and the profile ignores":    {name: gpu, filter: leaves{ignores: gpu}},
		"what some node has, and a DeviceClass maps":     {name: gpu, filter: leaves{delegates: gpu}, wantCount: 3},
		"what no node has":                               {name: "example.com/fpga", wantCount: 3, wantLacks: true},
		"what no node has, and the profile ignores":      {name: "example.com/fpga", filter: leaves{ignores: "example.com/fpga"}},
		"what no node has, and a DeviceClass maps":       {name: "example.com/fpga", filter: leaves{delegates: "example.com/fpga"}},
		"what no node has, while a DeviceClass maps one": {name: "example.com/fpga", filter: leaves{delegates: gpu}, wantCount: 3, wantLacks: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			plugged := node("plugged", "4")
			plugged.Status.Allocatable[gpu] = quantity("4")
			s.cache.AddNode(klog.Background(), plugged)
			v := s.view()
			request := describe(t, v, asking(pod("p", "", "1", 0), c.name, "3"), c.filter).Classes[0].Request
			if got := slices.Max(request[dimScalars:]); got != c.wantCount || v.LacksResource() != c.wantLacks {
				t.Errorf("It asks for %d, and that no node has it is %t; want %d and %t", got, v.LacksResource(), c.wantCount, c.wantLacks)
			}
		})
	}
}

// leaves is a ResourceFilter that ignores one resource and delegates another.
type leaves struct{ ignores, delegates corev1.ResourceName }

func (l leaves) Ignores(name corev1.ResourceName) bool { return name == l.ignores }

func (l leaves) Delegates(name corev1.ResourceName) bool { return name == l.delegates }
