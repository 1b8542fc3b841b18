package scoring

import (
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
	return st.MakeNode().Name(name).Capacity(map[corev1.ResourceName]string{
		corev1.ResourceCPU: cpu, corev1.ResourceMemory: "64Gi", corev1.ResourcePods: "110", gpu: gpus,
	}).Obj()
}

func gpuPod(name, cpu, gpus string) *corev1.Pod {
	return st.MakePod().Name(name).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, gpu: gpus}).Obj()
}

func scorer(workloads ...configv1alpha1.TypicalWorkload) *Scorer {
	return New(&configv1alpha1.PlacementArgs{Device: ptr.To(string(gpu)), Workloads: workloads})
}

// scoresOf returns the normalized score of each node for a pod, by the name of the node.
func scoresOf(s *Scorer, pod *corev1.Pod, infos []fwk.NodeInfo) map[string]int64 {
	request := s.Request(pod)
	var list fwk.NodeScoreList
	for _, info := range infos {
		list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: s.Score(info, request)})
	}
	Normalize(list)
	out := make(map[string]int64)
	for _, one := range list {
		out[one.Name] = one.Score
	}
	return out
}

// TestScores checks three properties of scores. They do not depend on the order of nodes, they are
// in the framework's range, and only the nodes with the best score before scaling have the highest
// score.
func TestScores(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := func(most int) int64 { return int64(rapid.IntRange(0, most).Draw(t, "number")) }
		quantity := func(most int) resource.Quantity { return *resource.NewQuantity(number(most), resource.DecimalSI) }
		s := scorer(
			configv1alpha1.TypicalWorkload{Requests: map[string]resource.Quantity{"cpu": quantity(16), string(gpu): resource.MustParse("1")}, Weight: 1 + number(9)},
			configv1alpha1.TypicalWorkload{Requests: map[string]resource.Quantity{"cpu": quantity(32), string(gpu): quantity(8)}, Weight: 1 + number(9)},
		)
		incoming := gpuPod("p", fmt.Sprint(number(4)), fmt.Sprint(number(2)))
		infos, rises := []fwk.NodeInfo{}, map[string]int64{}
		for n := range 1 + number(5) {
			info := framework.NewNodeInfo(gpuPod("v", fmt.Sprint(number(8)), fmt.Sprint(number(4))))
			info.SetNode(gpuNode(fmt.Sprintf("node-%d", n), fmt.Sprint(16+number(16)), fmt.Sprint(4+number(4))))
			infos = append(infos, info)
			rises[info.Node().Name] = -s.Score(info, s.Request(incoming))
		}
		got := scoresOf(s, incoming, infos)
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
		if again := scoresOf(s, incoming, shuffled); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("the scores are %v, and %v in another order of nodes", got, again)
		}
	})
}

// TestLowerFragmentationScoresHighest checks that a node whose fragmented devices the pod would use
// has the highest score.
func TestLowerFragmentationScoresHighest(t *testing.T) {
	t.Parallel()
	s := scorer(configv1alpha1.TypicalWorkload{Requests: map[string]resource.Quantity{"cpu": resource.MustParse("32"), string(gpu): resource.MustParse("8")}, Weight: 1})
	var infos []fwk.NodeInfo
	for _, n := range []*corev1.Node{gpuNode("whole", "32", "8"), gpuNode("broken", "32", "3"), gpuNode("larger", "64", "16"), gpuNode("without", "64", "0")} {
		info := framework.NewNodeInfo()
		info.SetNode(n)
		infos = append(infos, info)
	}
	got := scoresOf(s, gpuPod("p", "1", "1"), infos)
	if got["broken"] != fwk.MaxScore || got["whole"] != 0 || got["larger"] <= got["whole"] || got["larger"] >= got["broken"] {
		t.Errorf("the scores are %v", got)
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
		if err := MixOf(&args.Placement, resources).Check(len(resources)); (err == nil) != c.want {
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
	mix := MixOf(args, []string{"pods", "cpu", "memory", "ephemeral-storage", string(gpu), ""})
	if mix.Device != 4 || mix.Weight() != 7 || !slices.Equal(mix.Shapes[0].Request, []int64{1, 1500, 1024, 0, 2, 1}) {
		t.Errorf("the mix is %+v", mix)
	}
	if mix := MixOf(args, []string{"pods", "cpu", "memory", "ephemeral-storage", ""}); mix != nil {
		t.Errorf("without the device, the mix is %+v", mix)
	}
}
