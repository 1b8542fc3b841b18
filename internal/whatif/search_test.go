package whatif_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// TestSearch: each remedy that is named helps by itself, and is the smallest of its kind.
func TestSearch(t *testing.T) {
	t.Parallel()
	gangOf := func(s *scene, count int, gpus int64, priority int32, queue string) ([]*corev1.Pod, *v1alpha1.PodGroup) {
		pg := s.group("train", int32(count), priority, v1alpha1.DisruptionModePod, queue)
		return members(s, "train", count, gpus, priority), pg
	}
	for name, c := range map[string]struct {
		// build adds a cluster to a scene, and returns what is pending in it.
		build func(s *scene) ([]*corev1.Pod, *v1alpha1.PodGroup)
		// want are beginnings of the changes, in their order.
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

// TestLine: work stands by priority, then age, and a gang once.
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
	for name, want := range map[string]whatif.Line{
		"train-1": {Place: 1, Of: 3, Queue: "team", PlaceInQueue: 1, OfQueue: 2},
		"older":   {Place: 2, Of: 3, Before: []string{"podgroup ns/train"}},
		"later":   {Place: 3, Of: 3, Queue: "team", PlaceInQueue: 2, OfQueue: 2, Before: []string{"podgroup ns/train", "pod ns/older"}},
	} {
		pod, _ := cluster.Pod(types.NamespacedName{Namespace: "ns", Name: name})
		got, err := cluster.LineOf(pod)
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

// TestWhen: bounds follow from what is declared, and from nothing else.
func TestWhen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		build func(s *scene) *corev1.Pod
		want  whatif.Bounds
		// notBefore and latest are moments after noon; 0 for none.
		notBefore, latest time.Duration
		now               bool
		// then is said of the latest moment.
		then string
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
		"a protection is in the way": {
			build: func(s *scene) *corev1.Pod {
				q := s.queue("team", 4)
				q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: time.Hour}
				old := s.running("old", "", "node-a", 4, 0, 10*time.Minute)
				pod := s.pending("new", "", 4, 10)
				old.Labels[v1alpha1.LabelQueue], pod.Labels[v1alpha1.LabelQueue] = "team", "team"
				return pod
			},
			notBefore: 50 * time.Minute, latest: 50 * time.Minute,
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
			if !strings.Contains(got.Then, c.then) {
				t.Errorf("It says %q, want %q", got.Then, c.then)
			}
		})
	}
}
