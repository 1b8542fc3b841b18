package whatif_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/replay"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// derivedReplays is the number of clusters that TestReplayOfDerivedGroups generates.
const derivedReplays = 30

// TestReplayOfDerivedGroups checks that a replay repeats the logged decisions if no pod names a
// group. The groups of preemptors and victims are derived from Jobs.
func TestReplayOfDerivedGroups(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	outcomes := make(map[core.Outcome]int)
	whole := 0
	t.Cleanup(func() {
		t.Logf("outcomes for gangs: %v; %d gangs taken whole", outcomes, whole)
		for _, o := range []core.Outcome{core.Preempts, core.Infeasible} {
			if !t.Failed() && (outcomes[o] < 5 || whole < 5) {
				t.Errorf("%d decisions about gangs have the outcome %s, and %d gangs are taken whole: too few to tell anything", outcomes[o], o, whole)
			}
		}
	})
	for seed := range derivedReplays {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			for _, a := range derivedReplayOf(t, uint64(seed)) {
				if a.State != replay.Same {
					t.Errorf("decision %d, for %s/%s, %s: %s\nthen %+v\nnow  %+v", a.Sequence, a.Preemptor.Namespace, a.Preemptor.Name, a.State, a.Why, a.Then, a.Now)
				}
				mu.Lock()
				if a.Preemptor.Gang {
					outcomes[a.Then.Outcome]++
				}
				for _, v := range a.Then.Victims {
					if v.Group {
						whole++
					}
				}
				mu.Unlock()
			}
		})
	}
}

// jobs is a scene with Jobs whose pods are gangs. waits has the pods that do not run yet.
type jobs struct {
	*scene
	roots []*batchv1.Job
	waits []*corev1.Pod
}

// gang adds a Job that requests a gang of count pods with a PriorityClass. It returns a function
// that makes the Job the owner of a pod.
func (s *jobs) gang(name, class string, count int, mode v1alpha1.DisruptionMode) func(*corev1.Pod) *corev1.Pod {
	s.roots = append(s.roots, &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{
			v1alpha1.AnnotationGang: "true", v1alpha1.AnnotationDisruptionMode: string(mode),
		}},
		Spec: batchv1.JobSpec{Parallelism: ptr.To(int32(count))},
	})
	return func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.PriorityClassName = class
		return s.ofJob(pod, name)
	}
}

// jobsOf returns a random cluster with running gangs and single pods, and new gangs to place.
func jobsOf(seed uint64) *jobs {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &jobs{scene: newScene(time.Now())}
	mode := func() v1alpha1.DisruptionMode {
		return []v1alpha1.DisruptionMode{v1alpha1.DisruptionModePod, v1alpha1.DisruptionModePodGroup}[r.IntN(2)]
	}
	low := []func(*corev1.Pod) *corev1.Pod{s.gang("low-0", "low", 2, mode()), s.gang("low-1", "low", 2, v1alpha1.DisruptionModePodGroup)}
	nodes := 2 + r.IntN(3)
	for n := range nodes {
		name := fmt.Sprintf("node-%d", n)
		s.node(name, 8)
		for i := range 2 + r.IntN(2) {
			gpus, pod := int64(2+r.IntN(2)), fmt.Sprintf("run-%d-%d", n, i)
			if i < 2 && n < 2 {
				low[i](s.running(pod, "", name, gpus, 10, time.Hour))
			} else {
				s.running(pod, "", name, 2, int32(100*r.IntN(3)), time.Hour)
			}
		}
	}
	for i := range 3 {
		name, count, class, priority := fmt.Sprintf("new-%d", i), 2+r.IntN(3), "high", int32(1000)
		if r.IntN(3) == 0 {
			class, priority = "low", 10
		}
		joins, gpus := s.gang(name, class, count, mode()), int64(2+r.IntN(4))
		for k := range count {
			s.waits = append(s.waits, joins(s.pending(fmt.Sprintf("%s-%d", name, k), "", gpus, priority)))
		}
	}
	return s
}

// derivedReplayOf runs a scheduler that derives groups from Jobs, and returns the replay of its
// decision log.
func derivedReplayOf(t *testing.T, seed uint64) []replay.Answer {
	t.Helper()
	s, cfg, log := jobsOf(seed), configuration(t), newTestLog(t)
	settings, err := grouping.SettingsOf(cfg.Profiles, scheduler.Name)
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := grouping.NewResolver(settings, func(types.NamespacedName) {})
	if err != nil {
		t.Fatal(err)
	}
	resolver.Attach(unplaced{})
	resolver.RecordTo(log.recorder)
	resolver.SetNamespace("ns", nil)
	var kinds []decisionlog.Root
	for _, kind := range resolver.Kinds() {
		kinds = append(kinds, decisionlog.Root{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Resource: kind.Resource})
		if kind.Kind != "Job" {
			continue
		}
		for _, job := range s.roots {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
			if err != nil {
				t.Fatal(err)
			}
			resolver.Set(kind.GroupKind(), kind.Reduce(&unstructured.Unstructured{Object: fields}))
		}
	}
	log.recorder.FollowRoots(kinds)
	s.writeGroups(t)
	// The first two pods exist at the start of the scheduler. The other pods are created later.
	first := 2
	a := actWith(t, s.scene, s.waits[:first:first], scheduler.Inputs{Decisions: log.log, Recorder: log.recorder, Derived: resolver},
		func(shared *scheduler.Scheduler, factory informers.SharedInformerFactory) {
			resolver.Attach(shared)
			log.follow(t, s.scene, shared, factory)
		})
	for _, pod := range s.waits[first:] {
		if err := a.client.Tracker().Add(pod.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	log.settle(t)
	return log.replay(t)
}

// writeGroups adds the PodGroups that the scheduler would create for the Jobs.
func (s *jobs) writeGroups(t *testing.T) {
	t.Helper()
	cfg := configuration(t)
	roots, err := derived.Roots(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var changes []inventory.Change
	for _, job := range s.roots {
		changes = append(changes, inventory.Change{Resource: "jobs.batch", Object: job})
	}
	objects, err := s.inventory(t, s.waits...).With(changes...)
	if err != nil {
		t.Fatal(err)
	}
	completed, _, err := derived.Complete(t.Context(), objects.WithRoots(roots), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s.groups, err = inventory.Decode[*v1alpha1.PodGroup](completed, inventory.PodGroups); err != nil {
		t.Fatal(err)
	}
	if len(s.groups) != len(s.roots) {
		t.Fatalf("There are %d PodGroups for %d Jobs", len(s.groups), len(s.roots))
	}
}

// unplaced implements grouping.Pods for a Resolver before there is a scheduler. It has no pods.
type unplaced struct{}

func (unplaced) Anchored(string) []*corev1.Pod { return nil }

func (unplaced) MembershipChanged(*corev1.Pod, types.NamespacedName, bool) {}
