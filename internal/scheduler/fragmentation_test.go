package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
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
	return &Plugin{scoring: scoringOf(&configv1alpha1.PlacementArgs{Device: ptr.To(string(gpu)), Workloads: workloads})}
}

// scoresOf returns the normalized score of each node for a pod, by the name of the node.
func scoresOf(ctx context.Context, t rapid.TB, p *Plugin, pod *corev1.Pod, infos []fwk.NodeInfo) map[string]int64 {
	t.Helper()
	state := framework.NewCycleState()
	if status := p.PreScore(ctx, state, pod, infos); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	var list fwk.NodeScoreList
	for _, info := range infos {
		score, status := p.Score(ctx, state, pod, info)
		if !status.IsSuccess() {
			t.Fatal(status.AsError())
		}
		list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: score})
	}
	if status := p.ScoreExtensions().NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	out := make(map[string]int64)
	for _, s := range list {
		out[s.Name] = s.Score
	}
	return out
}

// TestScores checks three properties of scores. They do not depend on the order of nodes, they are
// in the framework's range, and only the nodes with the best score before scaling have the highest
// score.
func TestScores(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		number := func(most int) int64 { return int64(rapid.IntRange(0, most).Draw(t, "number")) }
		quantity := func(most int) resource.Quantity { return *resource.NewQuantity(number(most), resource.DecimalSI) }
		p := scoringPlugin(
			configv1alpha1.TypicalWorkload{Requests: map[string]resource.Quantity{"cpu": quantity(16), string(gpu): resource.MustParse("1")}, Weight: 1 + number(9)},
			configv1alpha1.TypicalWorkload{Requests: map[string]resource.Quantity{"cpu": quantity(32), string(gpu): quantity(8)}, Weight: 1 + number(9)},
		)
		incoming := gpuPod("p", "", fmt.Sprint(number(4)), fmt.Sprint(number(2)))
		infos, rises := []fwk.NodeInfo{}, map[string]int64{}
		for n := range 1 + number(5) {
			info := framework.NewNodeInfo(gpuPod("v", "", fmt.Sprint(number(8)), fmt.Sprint(number(4))))
			info.SetNode(gpuNode(fmt.Sprintf("node-%d", n), fmt.Sprint(16+number(16)), fmt.Sprint(4+number(4))))
			infos = append(infos, info)
			rises[info.Node().Name] = p.scoring.mix.Rise(p.scoring.free(info), p.scoring.request(incoming))
		}
		got := scoresOf(ctx, t, p, incoming, infos)
		least := rises[infos[0].Node().Name]
		for _, rise := range rises {
			least = min(least, rise)
		}
		for name, score := range got {
			if score < 0 || score > fwk.MaxScore || (score == fwk.MaxScore) != (rises[name] == least) {
				t.Fatalf("%s has the score %d with a rise of %d, and the lowest rise is %d", name, score, rises[name], least)
			}
		}
		shuffled := slices.Clone(infos)
		rand.New(rand.NewPCG(uint64(number(9)), 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := scoresOf(ctx, t, p, incoming, shuffled); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("the scores are %v, and %v in another order of nodes", got, again)
		}
	})
}

// TestLowerFragmentationScoresHighest checks that a node whose fragmented devices the pod would use
// has the highest score.
func TestLowerFragmentationScoresHighest(t *testing.T) {
	t.Parallel()
	p := scoringPlugin(configv1alpha1.TypicalWorkload{Requests: map[string]resource.Quantity{"cpu": resource.MustParse("32"), string(gpu): resource.MustParse("8")}, Weight: 1})
	var infos []fwk.NodeInfo
	for _, n := range []*corev1.Node{gpuNode("whole", "32", "8"), gpuNode("broken", "32", "3"), gpuNode("larger", "64", "16"), gpuNode("without", "64", "0")} {
		info := framework.NewNodeInfo()
		info.SetNode(n)
		infos = append(infos, info)
	}
	got := scoresOf(t.Context(), t, p, gpuPod("p", "", "1", "1"), infos)
	if got["broken"] != fwk.MaxScore || got["whole"] != 0 || got["larger"] <= got["whole"] || got["larger"] >= got["broken"] {
		t.Errorf("the scores are %v", got)
	}
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

// TestBoundsOfWorkloads checks that the validation of the arguments has the same bounds as the mix.
func TestBoundsOfWorkloads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kinds  int
		weight int64
		want   bool
	}{
		"the largest":   {fragmentation.MostShapes, fragmentation.MostWeight, true},
		"one kind more": {fragmentation.MostShapes + 1, 1, false},
		"more weight":   {1, fragmentation.MostWeight + 1, false},
	} {
		args := &configv1alpha1.ReprieveArgs{}
		configv1alpha1.SetDefaults(args)
		for range c.kinds {
			args.Placement.Workloads = append(args.Placement.Workloads, configv1alpha1.TypicalWorkload{
				Requests: map[string]resource.Quantity{string(gpu): resource.MustParse("1")}, Weight: c.weight,
			})
		}
		if errs := configv1alpha1.Validate(args); (len(errs) == 0) != c.want {
			t.Errorf("%s: the arguments have the errors %v", name, errs)
		}
		resources := []string{string(gpu), ""}
		if err := mixOf(&args.Placement, resources).Check(len(resources)); (err == nil) != c.want {
			t.Errorf("%s: the mix has the error %v", name, err)
		}
	}
}

// TestMixOfResources checks how typical workloads are converted to amounts of a cluster's
// resources.
func TestMixOfResources(t *testing.T) {
	t.Parallel()
	args := &configv1alpha1.PlacementArgs{Device: ptr.To(string(gpu)), Workloads: []configv1alpha1.TypicalWorkload{{
		Requests: map[string]resource.Quantity{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Ki"), string(gpu): resource.MustParse("2"), "rdma/hca": resource.MustParse("1")},
		Weight:   7,
	}}}
	mix := mixOf(args, []string{"pods", "cpu", "memory", "ephemeral-storage", string(gpu), ""})
	if mix.Device != 4 || mix.Weight() != 7 || !slices.Equal(mix.Shapes[0].Request, []int64{1, 1500, 1024, 0, 2, 1}) {
		t.Errorf("the mix is %+v", mix)
	}
	if mix := mixOf(args, []string{"pods", "cpu", "memory", "ephemeral-storage", ""}); mix != nil {
		t.Errorf("without the device, the mix is %+v", mix)
	}
}
