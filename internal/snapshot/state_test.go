package snapshot

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

var update = flag.Bool("snapshot.update", false, "write the golden files anew")

// queued is like facts, but all pods and groups are in the queue "research".
type queued struct{ *facts }

func (queued) QueueOf(*corev1.Pod) string { return "research" }

func (queued) QueueOfGroup(*gang.Group) string { return "research" }

func (queued) OfPod(pod *corev1.Pod) *core.Toleration {
	switch pod.Name {
	case "spared":
		return &core.Toleration{Below: 50, Until: core.Forever}
	case "undated":
		return &core.Toleration{Below: 50, Lasts: int64(time.Minute), ClassNotFound: true}
	default:
		return nil
	}
}

func (queued) Standing(resources []string) *queue.Snapshot {
	amounts := func(cpu int64) fairshare.Amounts {
		out := make(fairshare.Amounts, len(resources))
		out[dimCPU] = cpu
		return out
	}
	limit := amounts(8000)
	for r := range limit {
		if r != dimCPU {
			limit[r] = fairshare.Unlimited
		}
	}
	tree, _ := fairshare.NewTree(len(resources), []fairshare.Queue{
		{Name: "company", Weight: 1, PreemptMinRuntime: fairshare.Unset, ReclaimMinRuntime: fairshare.Unset, Quota: amounts(6000)},
		{Name: "research", Parent: "company", Weight: 2, Priority: 3, PreemptMinRuntime: 0, ReclaimMinRuntime: int64(time.Hour), Quota: amounts(4000), Limit: limit},
	})
	return &queue.Snapshot{Balance: fairshare.Balance{Tree: tree, Shares: []fairshare.Amounts{amounts(7000), amounts(7000)}}}
}

// stateOf returns the state of a cluster with one object of each kind.
func stateOf(t *testing.T) State {
	t.Helper()
	s := newStage(t)
	f := queued{s.facts}
	kept := NewCache(Sources{Membership: f, Groups: f, Disruptions: f, Tolerations: f, Queues: f, Profiles: f, Delegation: f})
	began := metav1.NewTime(time.Unix(1_700_000_000, 0))
	cordoned := node("node-b", "8")
	cordoned.Spec.Unschedulable = true
	cordoned.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
	for _, n := range []*corev1.Node{cordoned, node("node-a", "4")} {
		s.cache.AddNode(klog.Background(), n)
	}
	s.facts.groups[key("whole")] = &gang.Group{Key: key("whole"), UID: "uid-whole", MinCount: 2, Whole: true, Priority: ptr.To[int32](7), StartTime: began.Time}
	s.facts.groups[key("whole")].Stops, s.facts.groups[key("whole")].StoppedAt = 2, began.Add(-time.Hour)
	s.facts.groups[key("elastic")] = &gang.Group{Key: key("elastic"), UID: "uid-elastic", MinCount: 1, Priority: ptr.To[int32](8), StartTime: began.Time}
	guarded := on(pod("guarded", "", "1", 1), "node-a")
	guarded.Labels["app"] = "db"
	guarded.Status.StartTime = &began
	s.facts.disrupted["uid-leaving"], s.facts.overdue["uid-overdue"] = true, true
	s.facts.minRuntime = patient
	guarded.Spec.SchedulerName = "patient"
	mirror := on(pod("mirror", "", "100m", 0), "node-b")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	s.facts.groups[key("whole")].Progress = gang.Progress{Saved: began.Add(time.Hour), Interval: time.Minute}
	saved := on(pod("whole-1", "whole", "1", 0), "node-b")
	saved.Annotations = map[string]string{v1alpha1.AnnotationLastCheckpoint: "2023-11-14T22:13:20Z", v1alpha1.AnnotationRestartCost: "90"}
	worker := on(pod("elastic-0", "elastic", "100m", 0), "node-b")
	worker.Labels["role"] = "worker"
	s.addPods(
		guarded, on(pod("whole-0", "whole", "1", 0), "node-a"), saved,
		worker, on(pod("elastic-1", "elastic", "100m", 0), "node-b"),
		on(pod("leaving", "", "1", 0), "node-b"), on(pod("overdue", "", "1", 0), "node-b"), mirror,
		on(pod("spared", "", "100m", 0), "node-b"), on(pod("undated", "", "100m", 0), "node-b"),
	)
	if err := s.cache.UpdateSnapshot(klog.Background(), s.snapshot); err != nil {
		t.Fatal(err)
	}
	infos, err := s.snapshot.List()
	if err != nil {
		t.Fatal(err)
	}
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	pdb.Status.DisruptionsAllowed = 2
	if err := kept.Level(infos, []*policyv1.PodDisruptionBudget{pdb}); err != nil {
		t.Fatal(err)
	}
	return kept.State([]RankedRoom{
		{ReservedRoom: ReservedRoom{Pod: podInfo(t, pod("coming", "", "1", 0)), Node: "node-b", Queue: "research"}, Priority: 9},
		{ReservedRoom: ReservedRoom{Pod: podInfo(t, pod("guarded", "", "1", 1)), Node: "node-a"}},
		{ReservedRoom: ReservedRoom{Pod: podInfo(t, pod("lost", "", "1", 1)), Node: "node-gone"}},
	})
}

// TestGoldenState compares the JSON of a state with a file. Other programs read this JSON, so its
// form must not change by accident.
func TestGoldenState(t *testing.T) {
	t.Parallel()
	state := stateOf(t)
	if state.Generation == 0 {
		t.Error("The state has no generation")
	}
	// The generation depends on the other tests of the process, so set a fixed value.
	state.Generation = 12
	state.Time, state.Process = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC), "reprieve-scheduler-7d4f_1c9e"
	got, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	file := filepath.Join("testdata", "state.json")
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("The state is (-want +got; -snapshot.update writes it anew):\n%s", cmp.Diff(string(want), string(got)))
	}
	var back State
	if err := json.Unmarshal(want, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.MarshalIndent(back, "", "  "); err != nil || !bytes.Equal(append(again, '\n'), want) {
		t.Errorf("It reads back as %s, %v", again, err)
	}
}

// TestStateOfNothing checks the state of a cluster without nodes.
func TestStateOfNothing(t *testing.T) {
	t.Parallel()
	kept := NewCache(newFacts().sources())
	if err := kept.Level(nil, nil); err != nil {
		t.Fatal(err)
	}
	if state := kept.State(nil); state.Schema != StateSchema || len(state.Nodes)+len(state.Units)+len(state.Queues) != 0 {
		t.Errorf("The state is %+v", state)
	}
}
