package whatif_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inputs"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/replay"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// replayed is the number of clusters that TestReplayIsWhatWasDecided generates.
const replayed = 60

// TestReplayIsWhatWasDecided checks that a replay repeats the logged decisions, on generated
// clusters with several workloads. It uses the same version and configuration, so victims and nodes
// must be the same.
func TestReplayIsWhatWasDecided(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	outcomes := make(map[core.Outcome]int)
	t.Cleanup(func() {
		t.Logf("outcomes: %v", outcomes)
		for _, o := range []core.Outcome{core.Preempts, core.Infeasible, core.Waits} {
			if !t.Failed() && outcomes[o] < 5 {
				t.Errorf("%d decisions have the outcome %s: too few to tell anything", outcomes[o], o)
			}
		}
	})
	for seed := range replayed {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			for _, a := range replayOf(t, uint64(seed)) {
				mu.Lock()
				outcomes[a.Then.Outcome]++
				mu.Unlock()
				if a.State != replay.Same {
					t.Errorf("decision %d, for %s/%s, %s: %s\nthen %+v\nnow  %+v", a.Sequence, a.Preemptor.Namespace, a.Preemptor.Name, a.State, a.Why, a.Then, a.Now)
				}
			}
		})
	}
}

// replayOf runs a scheduler in a generated cluster where work arrives several times. It returns the
// replay of the decision log.
func replayOf(t *testing.T, seed uint64) []replay.Answer {
	t.Helper()
	s, first := generated(seed, time.Now())
	pods := first.Pods
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range 4 {
		more := fmt.Sprintf("more-%d", i)
		priority, gpus, queue := int32(100*r.IntN(6)), int64(1+r.IntN(4)), ""
		if len(s.queues) > 0 {
			queue = s.queues[r.IntN(len(s.queues))].Name
		}
		if count := r.IntN(4); count > 1 {
			s.group(more, int32(count), priority, v1alpha1.DisruptionModePodGroup, queue)
			pods = append(pods, members(s, more, count, gpus, priority)...)
			continue
		}
		pod := s.pending(more, "", gpus, priority)
		if queue != "" {
			pod.Labels[v1alpha1.LabelQueue] = queue
		}
		pods = append(pods, pod)
	}
	log := newTestLog(t)
	// The pods of the first workload exist at the start of the scheduler. The other pods are
	// created later.
	half := len(first.Pods)
	a := actWith(t, s, pods[:half:half], scheduler.Inputs{Decisions: log.log, Recorder: log.recorder}, func(shared *scheduler.Scheduler, factory informers.SharedInformerFactory) {
		log.follow(t, s, shared, factory)
	})
	for _, pod := range pods[half:] {
		if err := a.client.Tracker().Add(pod.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	log.settle(t)
	return log.replay(t)
}

// testLog is a decision log with inputs, in memory.
type testLog struct {
	log      *decisionlog.Log
	recorder *inputs.Recorder
	lines    bytes.Buffer
	end      func()
}

func newTestLog(t *testing.T) *testLog {
	t.Helper()
	l := &testLog{}
	l.log = decisionlog.New(decisionlog.Options{Process: "p", Out: &l.lines})
	l.recorder = inputs.New(inputs.Options{Process: "p", Append: l.log.Append, Unwritable: func(err error) { t.Errorf("A line is not written: %v", err) }})
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { l.log.Run(ctx) })
	l.end = sync.OnceFunc(func() {
		cancel()
		writing.Wait()
	})
	t.Cleanup(l.end)
	return l
}

// told is a fake informer. It passes its objects to each new handler.
type told []any

// AddEventHandler implements inputs.Informer.
func (all told) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	for _, obj := range all {
		handler.OnAdd(obj, true)
	}
	return synced{}, nil
}

// synced is the registration of a handler that has received all objects.
type synced struct{}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (synced) HasSynced() bool { return true }

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (synced) HasSyncedChecker() toolscache.DoneChecker { return nil }

// follow connects the recorder to the informers of all objects, as the scheduler command does.
func (l *testLog) follow(t *testing.T, s *scene, shared *scheduler.Scheduler, factory informers.SharedInformerFactory) {
	t.Helper()
	var groups, queues told
	for _, pg := range s.groups {
		groups = append(groups, pg)
	}
	for _, q := range s.queues {
		queues = append(queues, q)
	}
	var known []toolscache.InformerSynced
	for resource, informer := range map[string]inputs.Informer{
		inventory.PriorityClasses: factory.Scheduling().V1().PriorityClasses().Informer(),
		"poddisruptionbudgets":    factory.Policy().V1().PodDisruptionBudgets().Informer(), "namespaces": factory.Core().V1().Namespaces().Informer(),
		inventory.PodGroups: groups, inventory.Queues: queues,
	} {
		told, err := l.recorder.Follow(resource, informer)
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, told)
	}
	finished, err := l.recorder.FollowFinished(shared.Finished())
	if err != nil {
		t.Fatal(err)
	}
	if !toolscache.WaitForCacheSync(t.Context().Done(), append(known, finished, shared.HasSynced)...) {
		t.Fatal("The informers have not told of all")
	}
	l.recorder.Begin()
}

// settle waits until no decision is under way and no new decision has been logged for a while.
func (l *testLog) settle(t *testing.T) {
	t.Helper()
	const quiet = 8
	before, same := -1, 0
	err := wait.PollUntilContextTimeout(t.Context(), 25*time.Millisecond, time.Minute, false, func(context.Context) (bool, error) {
		latest := l.log.Latest()
		for i := range latest {
			if latest[i].Result.State == decisionlog.UnderWay {
				same = 0
			}
		}
		if same++; len(latest) != before {
			before, same = len(latest), 0
		}
		return same >= quiet, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// replay repeats all decisions in the log.
func (l *testLog) replay(t *testing.T) []replay.Answer {
	t.Helper()
	l.end()
	var log replay.Log
	if l.lines.Len() == 0 {
		return nil
	}
	if err := log.Read("log", strings.NewReader(l.lines.String())); err != nil {
		t.Fatal(err)
	}
	if broken, why := log.Broken(); broken > 0 {
		t.Fatalf("%d lines are broken: %s", broken, why)
	}
	cfg := configuration(t)
	answers, err := log.Replay(t.Context(), replay.Options{
		Config: func(context.Context, *inventory.Inventory) (*config.KubeSchedulerConfiguration, error) {
			return cfg, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answers
}
