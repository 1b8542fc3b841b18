package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/scoring"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

func gpuNode(name, cpu, gpus string) *corev1.Node {
	n := node(name, cpu)
	n.Status.Allocatable[gpu], n.Status.Capacity[gpu] = resource.MustParse(gpus), resource.MustParse(gpus)
	return n
}

func gpuPod(name, group, cpu, gpus string) *corev1.Pod {
	p := pod(name, group, cpu, 0)
	p.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse(gpus)
	return p
}

// byFragmentation is a configuration with one typical workload. The weight is so high that only the
// plugin's own score counts.
const byFragmentation = schedulerYAML + `    score:
      enabled: [{name: Reprieve, weight: 1000}]
  pluginConfig: [{name: Reprieve, args: {placement: {workloads: [{requests: {cpu: 32, nvidia.com/gpu: 8}, weight: 1}]}}}]
`

// TestPodByFragmentation checks which node a pod gets, with the criterion of fragmentation and
// without.
func TestPodByFragmentation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ configuration, want string }{
		"off: the node with the most free room": {schedulerYAML, "whole"},
		"on: the node that is broken already":   {byFragmentation, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, c.configuration, nil, gpuNode("broken", "32", "8"), gpuNode("whole", "64", "8"))
			r.create(on(gpuPod("v", "", "8", "1"), "broken"))
			r.create(gpuPod("p", "", "4", "1"))
			r.eventually("the pod is placed", func() bool { r.cycles(); return r.nodeOf("p") != "" })
			if got := r.nodeOf("p"); got != c.want {
				t.Errorf("the pod is on %s, want %s", got, c.want)
			}
		})
	}
}

// TestGangByFragmentation checks which nodes the members of a gang get, with the criterion and
// without.
func TestGangByFragmentation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ configuration, want string }{
		"off: the fullest node":                     {schedulerYAML, "small"},
		"on: the node that keeps no workload whole": {byFragmentation, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The node "small" has room for fewer members than "broken", but has room for the
			// typical workload.
			r := newRigWith(t, c.configuration, nil, gpuNode("broken", "64", "7"), gpuNode("small", "32", "8"))
			r.gangOf("g", 2, 0)
			r.create(gpuPod("g-0", "g", "8", "1"), gpuPod("g-1", "g", "8", "1"))
			r.eventually("the gang is placed", func() bool { r.cycles(); return r.nodeOf("g-0") != "" && r.nodeOf("g-1") != "" })
			if a, b := r.nodeOf("g-0"), r.nodeOf("g-1"); a != c.want || b != c.want {
				t.Errorf("the members are on %s and %s, want %s", a, b, c.want)
			}
		})
	}
}

func scoringPlugin(workloads ...configv1alpha1.TypicalWorkload) *Plugin {
	return &Plugin{scorer: scoring.New(&configv1alpha1.PlacementArgs{Device: ptr.To(string(gpu)), Workloads: workloads})}
}

// TestNoScore checks that the plugin skips Score without typical workloads.
func TestNoScore(t *testing.T) {
	t.Parallel()
	p := scoringPlugin()
	if status := p.PreScore(t.Context(), framework.NewCycleState(), st.MakePod().Obj(), nil); !status.IsSkip() {
		t.Errorf("PreScore returns %v, want Skip", status)
	}
}

// TestScoreWithoutPreScore checks Score in a profile that does not run PreScore.
func TestScoreWithoutPreScore(t *testing.T) {
	t.Parallel()
	info := framework.NewNodeInfo()
	info.SetNode(gpuNode("whole", "32", "8"))
	incoming := gpuPod("p", "", "1", "1")
	workload := configv1alpha1.TypicalWorkload{Requests: map[string]resource.Quantity{string(gpu): resource.MustParse("8")}, Weight: 1}
	for name, c := range map[string]struct {
		plugin *Plugin
		want   int64
	}{
		"on":  {scoringPlugin(workload), -7},
		"off": {scoringPlugin(), 0},
	} {
		if got, status := c.plugin.Score(t.Context(), framework.NewCycleState(), incoming, info); !status.IsSuccess() || got != c.want {
			t.Errorf("%s: the score is %d, %v; want %d", name, got, status, c.want)
		}
	}
}
