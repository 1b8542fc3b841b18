package whatif_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// planned returns a cluster of two nodes with 4 GPUs each. A gang of two pods has run on it for two
// hours. One GPU is free.
func planned() *scene {
	s := newScene(noon)
	s.node("node-a", 4)
	s.node("node-b", 4)
	s.group("batch", 2, 10, v1alpha1.DisruptionModePodGroup, "")
	s.running("batch-0", "batch", "node-a", 4, 10, 2*time.Hour)
	s.running("batch-1", "batch", "node-b", 3, 10, 2*time.Hour)
	return s
}

func TestPlan(t *testing.T) {
	t.Parallel()
	pod := func(s *scene, name string, gpus int64, priority int32) manifest.Workload {
		return manifest.Workload{Kind: "Pod", Namespace: "ns", Name: name, Pods: []*corev1.Pod{s.pending(name, "", gpus, priority)}}
	}
	gangOf := func(s *scene, name string, minCount int32, count int, gpus int64, priority int32) manifest.Workload {
		s.group(name, minCount, priority, v1alpha1.DisruptionModePod, "")
		return manifest.Workload{Kind: "PodGroup", Namespace: "ns", Name: name, Gang: true, Pods: members(s, name, count, gpus, priority)}
	}
	type want struct {
		outcome  core.Outcome
		placed   int
		nodes    string
		victims  string
		gpuHours float64
		says     string
	}
	for name, c := range map[string]struct {
		submit func(s *scene) []manifest.Workload
		want   []want
	}{
		"a pod that fits goes where the scheduler likes best": {
			submit: func(s *scene) []manifest.Workload { return []manifest.Workload{pod(s, "small", 1, 0)} },
			want:   []want{{outcome: core.Fits, placed: 1, nodes: "node-b", says: "pod fits on node-b"}},
		},
		"a pod takes a gang as a whole, with what that costs": {
			submit: func(s *scene) []manifest.Workload { return []manifest.Workload{pod(s, "big", 2, 100)} },
			want:   []want{{outcome: core.Preempts, placed: 1, nodes: "node-a", victims: "batch", gpuHours: 14, says: "once 1 group (2 pods) is gone"}},
		},
		"a pod takes no gang whose preemption priority is higher": {
			submit: func(s *scene) []manifest.Workload {
				s.groups[0].Spec.PreemptionPriorityClassName = ptr.To("high")
				return []manifest.Workload{pod(s, "big", 2, 100)}
			},
			want: []want{{outcome: core.Infeasible}},
		},
		"a pod takes a gang whose preemption priority is lower": {
			submit: func(s *scene) []manifest.Workload {
				s.groups[0].Spec.PreemptionPriorityClassName = ptr.To("high")
				return []manifest.Workload{pod(s, "big", 2, 2000)}
			},
			want: []want{{outcome: core.Preempts, placed: 1, nodes: "node-a", victims: "batch", gpuHours: 14}},
		},
		"a pod of no higher priority takes nothing": {
			submit: func(s *scene) []manifest.Workload { return []manifest.Workload{pod(s, "equal", 2, 10)} },
			want:   []want{{outcome: core.Infeasible, says: "no node has them"}},
		},
		"a gang takes a gang": {
			submit: func(s *scene) []manifest.Workload { return []manifest.Workload{gangOf(s, "train", 2, 2, 4, 100)} },
			want:   []want{{outcome: core.Preempts, placed: 2, nodes: "node-a,node-b", victims: "batch", gpuHours: 14}},
		},
		"a gang that lacks members waits for them": {
			submit: func(s *scene) []manifest.Workload { return []manifest.Workload{gangOf(s, "short", 3, 2, 1, 100)} },
			want:   []want{{outcome: whatif.Held, says: "needs 3 members and has 2"}},
		},
		"what comes second finds the room that the first has made": {
			submit: func(s *scene) []manifest.Workload {
				return []manifest.Workload{pod(s, "first", 4, 100), pod(s, "second", 4, 0), pod(s, "third", 4, 0)}
			},
			want: []want{
				{outcome: core.Preempts, placed: 1, victims: "batch", gpuHours: 14},
				{outcome: core.Fits, placed: 1},
				{outcome: core.Infeasible},
			},
		},
		"a pod of another scheduler is not Reprieve's to place": {
			submit: func(s *scene) []manifest.Workload {
				w := pod(s, "other", 1, 0)
				w.Pods[0].Spec.SchedulerName = "default-scheduler"
				return []manifest.Workload{w}
			},
			want: []want{{outcome: whatif.Held, says: `asks for the scheduler "default-scheduler"`}},
		},
		"a pod with a scheduling gate waits for it": {
			submit: func(s *scene) []manifest.Workload {
				w := pod(s, "gated", 1, 0)
				w.Pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
				return []manifest.Workload{w}
			},
			want: []want{{outcome: whatif.Held, says: "example.com/wait"}},
		},
		"a gang goes without the member behind a gate": {
			submit: func(s *scene) []manifest.Workload {
				w := gangOf(s, "train", 2, 3, 4, 100)
				w.Pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
				return []manifest.Workload{w}
			},
			want: []want{{outcome: core.Preempts, placed: 2, nodes: "node-a,node-b", victims: "batch", gpuHours: 14}},
		},
		"a gang that needs the member behind a gate waits for it": {
			submit: func(s *scene) []manifest.Workload {
				w := gangOf(s, "train", 3, 3, 1, 100)
				w.Pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
				return []manifest.Workload{w}
			},
			want: []want{{outcome: whatif.Held, says: "needs 3 members and has 2; 1 more wait for a scheduling gate"}},
		},
		"a gang of which all are behind gates waits for them": {
			submit: func(s *scene) []manifest.Workload {
				w := gangOf(s, "train", 2, 2, 1, 100)
				for _, pod := range w.Pods {
					pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
				}
				return []manifest.Workload{w}
			},
			want: []want{{outcome: whatif.Held, says: "example.com/wait"}},
		},
		"a queue at its limit says so": {
			submit: func(s *scene) []manifest.Workload {
				q := s.queue("team", 0)
				q.Spec.Limit = corev1.ResourceList{gpu: *resource.NewQuantity(0, resource.DecimalSI)}
				w := pod(s, "limited", 1, 100)
				w.Pods[0].Labels[v1alpha1.LabelQueue] = "team"
				return []manifest.Workload{w}
			},
			want: []want{{outcome: whatif.Held, says: `"team"`}},
		},
		"a queue that is not for the namespace takes nothing of it": {
			submit: func(s *scene) []manifest.Workload {
				s.queue("theirs", 8).Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "theirs"}}
				w := pod(s, "stranger", 1, 100)
				w.Pods[0].Labels[v1alpha1.LabelQueue] = "theirs"
				return []manifest.Workload{w}
			},
			want: []want{{outcome: whatif.Held, says: "its namespaceSelector does not select it"}},
		},
		"a queue that is for the namespace takes no higher priority than its class": {
			submit: func(s *scene) []manifest.Workload {
				s.namespace.Labels = map[string]string{"team": "ours"}
				q := s.queue("ours", 8)
				q.Spec.NamespaceSelector, q.Spec.MaxPriorityClass = &metav1.LabelSelector{MatchLabels: s.namespace.Labels}, ptr.To("low")
				above, at := pod(s, "above", 1, 100), pod(s, "at", 1, 10)
				above.Pods[0].Labels[v1alpha1.LabelQueue], at.Pods[0].Labels[v1alpha1.LabelQueue] = "ours", "ours"
				return []manifest.Workload{above, at}
			},
			want: []want{{outcome: whatif.Held, says: "priority 100 is above 10"}, {outcome: core.Fits, placed: 1}},
		},
		"a namespace's default queue is that of what names none": {
			submit: func(s *scene) []manifest.Workload {
				s.namespace.Annotations = map[string]string{v1alpha1.AnnotationDefaultQueue: "team"}
				s.queue("team", 0).Spec.Limit = corev1.ResourceList{gpu: *resource.NewQuantity(0, resource.DecimalSI)}
				return []manifest.Workload{pod(s, "unnamed", 1, 100)}
			},
			want: []want{{outcome: whatif.Held, says: `"team"`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := planned()
			workloads := c.submit(s)
			results, err := whatif.Plan(t.Context(), s.inventory(t), configuration(t), workloads, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(results) != len(c.want) {
				t.Fatalf("%d results, want %d", len(results), len(c.want))
			}
			for i, want := range c.want {
				r := &results[i]
				step := r.Steps[0]
				if step.Outcome != want.outcome || r.Placed != want.placed || !strings.Contains(step.Message, want.says) {
					t.Errorf("%s: %s, %d placed, %q; want %s, %d, %q", r.Name, step.Outcome, r.Placed, step.Message, want.outcome, want.placed, want.says)
				}
				if got := nodesOf(r); want.nodes != "" && got != want.nodes {
					t.Errorf("%s: on %s, want %s", r.Name, got, want.nodes)
				}
				if got := victimsOf(r); got != want.victims {
					t.Errorf("%s: takes %q, want %q", r.Name, got, want.victims)
				}
				if r.Cost.GPUHours != want.gpuHours {
					t.Errorf("%s: costs %v GPU-hours, want %v", r.Name, r.Cost.GPUHours, want.gpuHours)
				}
			}
		})
	}
}

func nodesOf(r *whatif.Result) string {
	var out []string
	for _, step := range r.Steps {
		for _, place := range step.Placements {
			out = append(out, place.Node)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

func victimsOf(r *whatif.Result) string {
	var out []string
	for _, step := range r.Steps {
		for _, v := range step.Victims {
			out = append(out, v.Name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// TestPlanIsTheSameEachTime checks that plans for the same objects and manifests always have the
// same bytes.
func TestPlanIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	var before []byte
	for range 3 {
		s := planned()
		s.group("train", 2, 100, v1alpha1.DisruptionModePod, "")
		w := manifest.Workload{Kind: "PodGroup", Namespace: "ns", Name: "train", Gang: true, Pods: members(s, "train", 2, 4, 100)}
		results, err := whatif.Plan(t.Context(), s.inventory(t), configuration(t), []manifest.Workload{w}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(results)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, text) {
			t.Fatalf("The answers differ:\n%s\n%s", before, text)
		}
		before = text
	}
}

// TestPlanCountsWhatIsLeaving checks that the room of terminating pods has no cost, and that
// overdue pods count as running.
func TestPlanCountsWhatIsLeaving(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		since time.Duration
		want  core.Outcome
	}{
		"one that has just been deleted is waited for": {since: time.Second, want: core.Waits},
		"one that does not go is not counted on":       {since: 24 * time.Hour, want: core.Infeasible},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(noon)
			s.node("node-a", 4)
			going := s.running("going", "", "node-a", 4, 1000, 48*time.Hour)
			at := metav1.NewTime(noon.Add(-c.since))
			going.DeletionTimestamp, going.DeletionGracePeriodSeconds = &at, new(int64)
			w := manifest.Workload{Kind: "Pod", Namespace: "ns", Name: "next", Pods: []*corev1.Pod{s.pending("next", "", 4, 0)}}
			results, err := whatif.Plan(t.Context(), s.inventory(t), configuration(t), []manifest.Workload{w}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := results[0].Steps[0]; got.Outcome != c.want {
				t.Errorf("%s (%s), want %s", got.Outcome, got.Message, c.want)
			}
		})
	}
}

// TestPlanLeavesOutFinishedPods checks that a finished pod uses no room on its node. A pod without
// a phase counts as pending, as in the API server.
func TestPlanLeavesOutFinishedPods(t *testing.T) {
	t.Parallel()
	for phase, want := range map[corev1.PodPhase]core.Outcome{
		corev1.PodSucceeded: core.Fits, corev1.PodFailed: core.Fits, corev1.PodRunning: core.Infeasible, "": core.Infeasible,
	} {
		t.Run("phase "+string(phase), func(t *testing.T) {
			t.Parallel()
			s := newScene(noon)
			s.node("node-a", 4)
			s.running("other", "", "node-a", 4, 0, time.Hour).Status.Phase = phase
			w := manifest.Workload{Kind: "Pod", Namespace: "ns", Name: "next", Pods: []*corev1.Pod{s.pending("next", "", 4, 0)}}
			results, err := whatif.Plan(t.Context(), s.inventory(t), configuration(t), []manifest.Workload{w}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := results[0].Steps[0]; got.Outcome != want {
				t.Errorf("%s (%s), want %s", got.Outcome, got.Message, want)
			}
		})
	}
}

// TestPlanBehindWhatLeavesALimit checks the plan of a workload after a workload that waited for a
// limit. Terminating pods that counted towards that limit must have ended, even if they are on
// other nodes.
func TestPlanBehindWhatLeavesALimit(t *testing.T) {
	t.Parallel()
	s := newScene(noon)
	s.node("node-a", 8)
	s.node("node-b", 8)
	s.node("node-c", 1)
	q := s.queue("team", 8)
	q.Spec.Limit = q.Spec.Quota
	s.leaving("going", "node-a", 8, time.Minute).Labels[v1alpha1.LabelQueue] = "team"
	// The plan must not delete this terminating pod, because it uses neither the pod's node nor the
	// limit of the pod's queue.
	s.leaving("of-none", "node-c", 1, time.Minute)
	pod := func(name, queue string, gpus int64) manifest.Workload {
		p := s.pending(name, "", gpus, 0)
		p.Labels[v1alpha1.LabelQueue] = queue
		return manifest.Workload{Kind: "Pod", Namespace: "ns", Name: name, Pods: []*corev1.Pod{p}}
	}
	third := pod("third", "", 1)
	third.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-c"}
	results, err := whatif.Plan(t.Context(), s.inventory(t), configuration(t), []manifest.Workload{pod("first", "team", 4), pod("second", "team", 4), third}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []core.Outcome{core.Waits, core.Fits, core.Waits} {
		if got := results[i].Steps[0]; got.Outcome != want {
			t.Errorf("%s: %s (%s), want %s", results[i].Name, got.Outcome, got.Message, want)
		}
	}
}
