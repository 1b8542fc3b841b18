package whatif_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// TestSearch checks that each remedy helps without other changes and is the smallest of its kind.
func TestSearch(t *testing.T) {
	t.Parallel()
	gangOf := func(s *scene, count int, gpus int64, priority int32, queue string) ([]*corev1.Pod, *v1alpha1.PodGroup) {
		pg := s.group("train", int32(count), priority, v1alpha1.DisruptionModePod, queue)
		return members(s, "train", count, gpus, priority), pg
	}
	for name, c := range map[string]struct {
		// build adds objects to a scene. It returns the pending pods and their PodGroup.
		build func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup)
		// want has the beginning of each change, in order.
		want []string
	}{
		"a gang with one node too few": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 4)
				s.node("node-b", 4)
				return gangOf(s, 3, 4, 0, "")
			},
			want: []string{"lower minCount of PodGroup train from 3 to 2", "add 1 node like node-a"},
		},
		"a gang with four nodes too few": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 4)
				return gangOf(s, 5, 4, 0, "")
			},
			want: []string{"lower minCount of PodGroup train from 5 to 1", "add 4 nodes like node-a"},
		},
		"a taint": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 4).Spec.Taints = []corev1.Taint{{Key: "example.com/test", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
				return []*corev1.Pod{s.pending("new", "", 4, 0)}, nil
			},
			want: []string{"tolerate the taint example.com/test=x:NoSchedule, which 1 node has"},
		},
		"a cordoned node": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 2)
				s.node("node-b", 4).Spec.Unschedulable = true
				return []*corev1.Pod{s.pending("new", "", 4, 0)}, nil
			},
			want: []string{"uncordon [node-b]"},
		},
		"cordoned nodes of which one matters": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				for name, gpus := range map[string]int64{"node-a": 2, "node-b": 4, "node-c": 4, "node-d": 4} {
					s.node(name, gpus).Spec.Unschedulable = true
				}
				s.running("old", "", "node-b", 4, 10, time.Hour)
				return []*corev1.Pod{s.pending("new", "", 4, 0)}, nil
			},
			want: []string{"uncordon [node-c]"},
		},
		"cordoned nodes of which some matter": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				for _, name := range []string{"node-a", "node-b", "node-c", "node-d", "node-e"} {
					s.node(name, 4).Spec.Unschedulable = true
				}
				s.running("old", "", "node-a", 1, 10, time.Hour)
				s.running("older", "", "node-c", 1, 10, time.Hour)
				return gangOf(s, 2, 4, 0, "")
			},
			want: []string{"uncordon [node-b node-d]"},
		},
		"more kinds of nodes than are tried": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				for i := range 12 {
					n := s.node(fmt.Sprintf("small-%d", i), 1)
					n.Labels["example.com/serial"] = n.Name
					n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
					n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(int64(2+i), resource.DecimalSI)
				}
				for i := range 6 {
					n := s.node(fmt.Sprintf("taken-%d", i), 4)
					n.Labels["example.com/serial"] = n.Name
					n.Spec.Taints = []corev1.Taint{{Key: "example.com/theirs", Effect: corev1.TaintEffectNoSchedule}}
				}
				s.node("tall", 4)
				s.running("old", "", "tall", 4, 1000, time.Hour)
				return []*corev1.Pod{s.pending("new", "", 4, 0)}, nil
			},
			want: []string{"tolerate the taint example.com/theirs:NoSchedule, which 6 nodes have", "add 1 node like tall"},
		},
		"kinds of nodes that differ in a taint": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				pods, pg := gangOf(s, 2, 4, 0, "")
				for i, key := range []string{"example.com/x", "example.com/y"} {
					s.node(fmt.Sprintf("node-%d", i), 4).Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
					pods[i].Spec.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
				}
				s.running("old", "", "node-1", 4, 1000, time.Hour)
				return pods, pg
			},
			want: []string{"lower minCount of PodGroup train from 2 to 1", "add 1 node like node-1"},
		},
		"kinds of nodes that differ in a label": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				pods, pg := gangOf(s, 2, 4, 0, "")
				s.node("node-0", 4)
				s.node("node-1", 4).Labels["example.com/fast"] = "true"
				pods[1].Spec.NodeSelector = map[string]string{"example.com/fast": "true"}
				s.running("old", "", "node-1", 4, 1000, time.Hour)
				return pods, pg
			},
			want: []string{"lower minCount of PodGroup train from 2 to 1", "add 1 node like node-1"},
		},
		"a priority that is too low": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 4)
				s.running("old", "", "node-a", 4, 5, time.Hour)
				return []*corev1.Pod{s.pending("new", "", 4, 0)}, nil
			},
			want: []string{"add 1 node like node-a", "submit it with the PriorityClass low (10 in place of 0)"},
		},
		"a limit that is too low": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 8)
				q := s.queue("team", 1)
				q.Spec.Limit = corev1.ResourceList{gpu: *resource.NewQuantity(3, resource.DecimalSI)}
				old := s.running("old", "", "node-a", 2, 10, time.Hour)
				old.Labels[v1alpha1.LabelQueue] = "team"
				pod := s.pending("new", "", 4, 10)
				pod.Labels[v1alpha1.LabelQueue] = "team"
				return []*corev1.Pod{pod}, nil
			},
			want: []string{"raise the limit of queue team by 3 nvidia.com/gpu, to 6"},
		},
		"a quota that is too low": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 8)
				for i, name := range []string{"rich", "poor"} {
					q := s.queue(name, int64(8-8*i))
					q.Spec.OverQuotaWeight = ptr.To(int32(0))
				}
				old := s.running("old", "", "node-a", 8, 10, time.Hour)
				old.Labels[v1alpha1.LabelQueue] = "rich"
				pod := s.pending("new", "", 2, 10)
				pod.Labels[v1alpha1.LabelQueue] = "poor"
				return []*corev1.Pod{pod}, nil
			},
			want: []string{"add 1 node like node-a"},
		},
		"a quota whose limit is close": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) { return belowLimit(s, gpu, "2", "4", "6") },
			want:  []string{"add 1 node like node-a", "raise the quota of queue poor by 2 nvidia.com/gpu, to 6"},
		},
		"a quota less than one unit below its limit": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				return belowLimit(s, corev1.ResourceCPU, "16", "4", "4500m")
			},
			want: []string{"add 1 node like node-a", "raise the quota of queue poor by 500m cpu, to 4500m"},
		},
		"a protection that ends": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 4)
				q := s.queue("team", 4)
				q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: time.Hour}
				old := s.running("old", "", "node-a", 4, 0, 10*time.Minute)
				old.Labels[v1alpha1.LabelQueue] = "team"
				pod := s.pending("new", "", 4, 10)
				pod.Labels[v1alpha1.LabelQueue] = "team"
				return []*corev1.Pod{pod}, nil
			},
			want: []string{"wait until 2026-03-01T12:50:00Z", "add 1 node like node-a"},
		},
		"a protection that ends, at a limit": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 4)
				return []*corev1.Pod{atLimit(s)}, nil
			},
			want: []string{"wait until 2026-03-01T12:50:00Z"},
		},
		"nothing that helps by itself": {
			build: func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup) {
				s.node("node-a", 2)
				return []*corev1.Pod{s.pending("new", "", 4, 0)}, nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(noon)
			pods, group := c.build(s)
			found, err := whatif.Search(t.Context(), s.inventory(t, pods...), configuration(t), pods, group, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range found {
				got = append(got, r.Change)
				if r.Outcome == core.Infeasible || r.Outcome == whatif.Held {
					t.Errorf("%s does not help: %s", r.Change, r.Message)
				}
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("It finds %q, want %q", got, c.want)
			}
		})
	}
}

// TestSearchForNative checks that Search does not change a PodGroup of scheduling.k8s.io, and that
// it changes the priorities of the group's pods.
func TestSearchForNative(t *testing.T) {
	t.Parallel()
	s := newScene(noon)
	s.node("node-a", 4)
	s.node("node-b", 4)
	s.running("old", "", "node-b", 4, 5, time.Hour)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": map[string]any{"namespace": "ns", "name": "theirs", "uid": "theirs"},
		"spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}},
	}}
	pods := []*corev1.Pod{s.pending("theirs-0", "", 4, 7), s.pending("theirs-1", "", 4, 0)}
	for _, pod := range pods {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("theirs")}
	}
	objects, err := s.inventory(t, pods...).With(inventory.Change{Resource: inventory.NativePodGroups, Object: object})
	if err != nil {
		t.Fatal(err)
	}
	found, err := whatif.Search(t.Context(), objects, configuration(t), pods, native.FromObject(object), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range found {
		got = append(got, r.Change)
	}
	if want := []string{"add 1 node like node-a", "submit it with the PriorityClass low (10 in place of 0)"}; !slices.Equal(got, want) {
		t.Errorf("It finds %q, want %q", got, want)
	}
}

// belowLimit fills a node with four pods of the queue rich, whose usage of a resource is above its
// quota. It returns a pending pod of the queue poor. The pod requests the whole limit of poor,
// which is more than the quota of poor. Both queues have the over-quota weight 0.
func belowLimit(s *scene, name corev1.ResourceName, rich, quota, limit string) ([]*corev1.Pod, *v1alpha1.PodGroup) {
	all := s.node("node-a", 8).Status.Allocatable[name]
	quarter := *resource.NewQuantity(all.Value()/4, resource.DecimalSI)
	for i := range 4 {
		old := s.running(fmt.Sprintf("old-%d", i), "", "node-a", 0, 10, time.Hour)
		old.Labels[v1alpha1.LabelQueue] = "rich"
		old.Spec.Containers[0].Resources.Requests[name] = quarter
	}
	pod := s.pending("new", "", 0, 10)
	pod.Labels[v1alpha1.LabelQueue] = "poor"
	pod.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(limit)
	for queue, quantity := range map[string]string{"rich": rich, "poor": quota} {
		q := s.queue(queue, 0)
		q.Spec.Quota = corev1.ResourceList{name: resource.MustParse(quantity)}
		q.Spec.OverQuotaWeight = ptr.To(int32(0))
		if queue == "poor" {
			q.Spec.Limit = corev1.ResourceList{name: resource.MustParse(limit)}
		}
	}
	return []*corev1.Pod{pod}, nil
}

// atLimit fills a queue to its limit with one pod, which is protected for another 50 minutes. It
// returns a pending pod with a higher priority.
func atLimit(s *scene) *corev1.Pod {
	q := s.queue("team", 4)
	q.Spec.Limit, q.Spec.PreemptMinRuntime = q.Spec.Quota, &metav1.Duration{Duration: time.Hour}
	old, pod := s.running("old", "", "node-a", 4, 0, 10*time.Minute), s.pending("new", "", 4, 10)
	old.Labels[v1alpha1.LabelQueue], pod.Labels[v1alpha1.LabelQueue] = "team", "team"
	return pod
}

// TestLine checks that the order of workloads is by priority, then age, and that a gang is one
// workload.
func TestLine(t *testing.T) {
	t.Parallel()
	s := newScene(noon)
	s.node("node-a", 1)
	s.queue("team", 1)
	s.group("train", 2, 100, v1alpha1.DisruptionModePod, "team")
	pods := members(s, "train", 2, 4, 100)
	older, later := s.pending("older", "", 4, 0), s.pending("later", "", 4, 0)
	older.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	later.Labels[v1alpha1.LabelQueue] = "team"
	pods = append(pods, older, later)
	cluster, err := whatif.New(t.Context(), s.inventory(t, pods...), configuration(t))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for name, want := range map[string]whatif.Position{
		"train-1": {Place: 1, Of: 3, Queue: "team", PlaceInQueue: 1, OfQueue: 2},
		"older":   {Place: 2, Of: 3, Before: []string{"podgroup ns/train"}},
		"later":   {Place: 3, Of: 3, Queue: "team", PlaceInQueue: 2, OfQueue: 2, Before: []string{"podgroup ns/train", "pod ns/older"}},
	} {
		pod, _ := cluster.Pod(types.NamespacedName{Namespace: "ns", Name: name})
		got, err := cluster.PositionOf(pod)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Before, want.Before) {
			t.Errorf("Before %s are %v, want %v", name, got.Before, want.Before)
		}
		if got.Before, want.Before = nil, nil; got.Place != want.Place || got.Of != want.Of || got.Queue != want.Queue || got.PlaceInQueue != want.PlaceInQueue || got.OfQueue != want.OfQueue {
			t.Errorf("%s stands at %+v, want %+v", name, got, want)
		}
	}
}

// together returns a function that builds a situation: a pending pod of one queue needs the
// eviction of two pods of another queue. If both pods were evicted, the other queue would be below
// its quota. deadline is the deadline of the two pods; it may be nil.
func together(deadline *int64) func(s *scene) *corev1.Pod {
	return func(s *scene) *corev1.Pod {
		s.node("node-b", 16)
		s.queue("team", 12)
		s.queue("other", 4).Spec.ReclaimMinRuntime = &metav1.Duration{Duration: time.Hour}
		for _, name := range []string{"first", "second"} {
			p := s.running(name, "", "node-b", 8, 0, 10*time.Minute)
			p.Labels[v1alpha1.LabelQueue], p.Spec.ActiveDeadlineSeconds = "other", deadline
		}
		pod := s.pending("new", "", 12, 0)
		pod.Labels[v1alpha1.LabelQueue] = "team"
		return pod
	}
}

// TestWhen checks that the bounds are derived only from declared times.
func TestWhen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		build func(s *scene) *corev1.Pod
		want  whatif.Bounds
		// notBefore and latest are times since noon. 0 means that there is no bound.
		notBefore, latest time.Duration
		now               bool
		// The field because is a part of the reason for notBefore, and the field then is a part of
		// the reason for latest.
		because, then string
	}{
		"there is room": {
			build: func(s *scene) *corev1.Pod { return s.pending("new", "", 1, 0) }, now: true,
		},
		"those in the way declare no end": {
			build: func(s *scene) *corev1.Pod {
				s.running("old", "", "node-a", 4, 10, time.Hour)
				return s.pending("new", "", 4, 0)
			},
			want: whatif.Bounds{Endless: 1},
		},
		"a deadline ends one of them": {
			build: func(s *scene) *corev1.Pod {
				s.running("first", "", "node-a", 1, 10, time.Hour).Spec.ActiveDeadlineSeconds = ptr.To(int64(4000))
				s.running("second", "", "node-a", 3, 10, time.Hour).Spec.ActiveDeadlineSeconds = ptr.To(int64(7200))
				return s.pending("new", "", 4, 0)
			},
			latest: time.Hour,
		},
		"the deadline of a Job ends its pods, and they have a grace period": {
			build: func(s *scene) *corev1.Pod {
				s.job("etl", 30*time.Minute, ptr.To(int64(3600)))
				s.ofJob(s.running("old", "", "node-a", 4, 10, time.Hour), "etl").Spec.TerminationGracePeriodSeconds = ptr.To(int64(60))
				return s.pending("new", "", 4, 0)
			},
			latest: 31 * time.Minute, then: "activeDeadlineSeconds of Job ns/etl ends pod ns/old",
		},
		"a pod's own deadline before that of its Job": {
			build: func(s *scene) *corev1.Pod {
				s.job("etl", 30*time.Minute, ptr.To(int64(3600)))
				s.ofJob(s.running("old", "", "node-a", 4, 10, time.Hour), "etl").Spec.ActiveDeadlineSeconds = ptr.To(int64(4200))
				return s.pending("new", "", 4, 0)
			},
			latest: 10 * time.Minute, then: "activeDeadlineSeconds of pod ns/old ends it",
		},
		"a Job without a deadline": {
			build: func(s *scene) *corev1.Pod {
				s.job("etl", 30*time.Minute, nil)
				s.ofJob(s.running("old", "", "node-a", 4, 10, time.Hour), "etl")
				return s.pending("new", "", 4, 0)
			},
			want: whatif.Bounds{Endless: 1},
		},
		"a Job that is not among the objects": {
			build: func(s *scene) *corev1.Pod {
				s.ofJob(s.running("old", "", "node-a", 4, 10, time.Hour), "etl")
				return s.pending("new", "", 4, 0)
			},
			want: whatif.Bounds{Unread: 1},
		},
		"its victims have a grace period": {
			build: func(s *scene) *corev1.Pod {
				s.running("old", "", "node-a", 4, 10, time.Hour).Spec.TerminationGracePeriodSeconds = ptr.To(int64(90))
				return s.pending("new", "", 4, 100)
			},
			latest: 90 * time.Second,
		},
		"its victims have a grace period that is too long": {
			build: func(s *scene) *corev1.Pod {
				s.running("old", "", "node-a", 4, 10, time.Hour).Spec.TerminationGracePeriodSeconds = ptr.To[int64](math.MaxInt64)
				return s.pending("new", "", 4, 100)
			},
			latest: time.Hour,
		},
		"a pod that was deleted an hour ago with a grace period of years": {
			build: func(s *scene) *corev1.Pod {
				s.deletedWithin("going", -time.Hour)
				return s.pending("new", "", 4, 0)
			},
			latest: years - time.Hour, then: "pod ns/going the last of them",
		},
		"a pod that was deleted before that with a grace period of years": {
			build: func(s *scene) *corev1.Pod {
				s.deletedWithin("going", -time.Hour-5*time.Minute)
				return s.pending("new", "", 4, 0)
			},
			want: whatif.Bounds{Endless: 1},
		},
		"a protection is in the way": {
			build: func(s *scene) *corev1.Pod {
				q := s.queue("team", 4)
				q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: time.Hour}
				old := s.running("old", "", "node-a", 4, 0, 10*time.Minute)
				pod := s.pending("new", "", 4, 10)
				old.Labels[v1alpha1.LabelQueue], pod.Labels[v1alpha1.LabelQueue] = "team", "team"
				return pod
			},
			notBefore: 50 * time.Minute, latest: 50 * time.Minute, because: "PreemptMinRuntime of queue team protects ns/old",
		},
		"a protection is in the way at a limit": {
			build: atLimit, notBefore: 50 * time.Minute, latest: 50 * time.Minute, because: "PreemptMinRuntime of queue team protects ns/old",
		},
		"a protection is in the way that is not among those named": {
			build: func(s *scene) *corev1.Pod {
				s.queue("team", 4).Spec.PreemptMinRuntime = &metav1.Duration{Duration: time.Hour}
				s.node("node-b", 24)
				for i := range 20 {
					s.running(fmt.Sprintf("low-%02d", i), "", "node-b", 1, 0, 30*time.Minute).Labels[v1alpha1.LabelQueue] = "team"
				}
				s.running("last", "", "node-b", 4, 5, 10*time.Minute).Labels[v1alpha1.LabelQueue] = "team"
				pod := s.pending("new", "", 24, 10)
				pod.Labels[v1alpha1.LabelQueue] = "team"
				return pod
			},
			notBefore: 50 * time.Minute, latest: 50 * time.Minute, because: "protections are in the way until then",
		},
		"those that are protected may go by then, and not all that it needs": {
			build: together(nil), notBefore: 50 * time.Minute, because: "ReclaimMinRuntime", want: whatif.Bounds{Endless: 2},
		},
		"those that are protected end before": {
			build: together(ptr.To(int64(1200))), latest: 10 * time.Minute, then: "activeDeadlineSeconds",
		},
		"pods that leave it a limit, on another node": {
			build: func(s *scene) *corev1.Pod {
				s.node("node-b", 4)
				for name, limit := range map[string]int64{"team": 4, "rest": 8} {
					q := s.queue(name, limit)
					q.Spec.Limit = q.Spec.Quota
				}
				s.leaving("going", "node-a", 4, 40*time.Second).Labels[v1alpha1.LabelQueue] = "team"
				s.node("node-c", 1)
				s.leaving("of-others", "node-c", 1, 90*time.Second).Labels[v1alpha1.LabelQueue] = "rest"
				pod := s.pending("new", "", 4, 0)
				pod.Labels[v1alpha1.LabelQueue] = "team"
				return pod
			},
			latest: 40 * time.Second, then: "pod ns/going the last of them",
		},
		"a gang that lacks a member is stale": {
			build: func(s *scene) *corev1.Pod {
				s.running("old-0", "old", "node-a", 2, 0, time.Hour)
				s.running("old-1", "old", "node-a", 2, 0, time.Hour)
				meta.SetStatusCondition(&s.group("old", 3, 0, v1alpha1.DisruptionModePod, "").Status.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-20 * time.Second)),
				})
				return s.pending("new", "", 4, 0)
			},
			latest: 40 * time.Second, then: "gang ns/old may be preempted",
		},
		"pods that should have gone by now": {
			build: func(s *scene) *corev1.Pod {
				s.leaving("going", "node-a", 4, -time.Second)
				return s.pending("new", "", 4, 0)
			},
			now: true, then: "pod ns/going the last of them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(noon)
			s.node("node-a", 4)
			pod := c.build(s)
			objects, key := s.inventory(t, pod), types.NamespacedName{Namespace: "ns", Name: "new"}
			cluster, err := whatif.New(t.Context(), objects, configuration(t))
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			step, err := cluster.Decide(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			got, err := whatif.When(t.Context(), objects, configuration(t), key, &step, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range []struct {
				what string
				got  *time.Time
				want time.Duration
			}{{"not before", got.NotBefore, c.notBefore}, {"at the latest", got.AtTheLatest, c.latest}} {
				switch known := b.want > 0 || c.now && b.what == "at the latest"; {
				case known != (b.got != nil):
					t.Errorf("%s is %v, want %v after noon", b.what, b.got, b.want)
				case known && b.got.Sub(noon).Round(time.Second) != b.want:
					t.Errorf("%s is %v, want %v after noon", b.what, b.got, b.want)
				}
			}
			if got.Endless != c.want.Endless || got.Unread != c.want.Unread {
				t.Errorf("%d have no end and of %d it is not known, want %d and %d", got.Endless, got.Unread, c.want.Endless, c.want.Unread)
			}
			if !strings.Contains(got.Then, c.then) || !strings.Contains(got.BecauseOf, c.because) {
				t.Errorf("It says %q and %q, want %q and %q", got.BecauseOf, got.Then, c.because, c.then)
			}
		})
	}
}

// TestWhenNothingTells checks that there is no bound for work that waits for an unknown reason.
func TestWhenNothingTells(t *testing.T) {
	t.Parallel()
	s := newScene(noon)
	step := whatif.Step{Outcome: core.Waits}
	got, err := whatif.When(t.Context(), s.inventory(t), configuration(t), types.NamespacedName{Namespace: "ns", Name: "new"}, &step, nil)
	if err != nil || got.AtTheLatest != nil {
		t.Errorf("It starts at %v at the latest (%s), error %v", got.AtTheLatest, got.Then, err)
	}
}
