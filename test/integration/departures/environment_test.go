package departures

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// terminationTimeout is a setting of the scheduler: a pod is overdue if it still exists this
	// long after its grace period.
	terminationTimeout = 30 * time.Second
	// promptly is the longest time until the scheduler replaces a reservation on a lost node. The
	// replacement usually takes a second or two. The scheduler's periodic retry would come much
	// later, so a replacement within this time has another cause.
	promptly = 20 * time.Second
)

// priorityClasses has the priority classes of all tests.
var priorityClasses = map[string]int32{"low": 100, "mid": 500, "high": 1000}

// shared is the playground that most tests share.
var shared = stage.Shared{Parallel: 6, Begin: begin}

func TestMain(m *testing.M) { os.Exit(shared.RunTests(m)) }

func begin(ctx context.Context, s *stage.Stage, dir string) error {
	s.CreateClasses(priorityClasses)
	config, err := schedulerConfig().Write(dir)
	if err != nil {
		return err
	}
	_, err = s.Run.StartScheduler(ctx, playground.Scheduler, playground.SchedulerOptions{Config: config, Args: stage.SchedulerArgs()})
	return err
}

func schedulerConfig() stage.Config {
	return stage.Config{Profiles: []string{
		stage.ProfileConfig(stage.Profile, fmt.Sprintf("{name: Reprieve, args: {terminationTimeout: %v}}", terminationTimeout)),
		stage.ProfileConfig(heals, fmt.Sprintf("{name: Reprieve, args: {terminationTimeout: %v, gang: {staleTimeout: %v, healTimeout: 10m}}}", terminationTimeout, staleTimeout)),
		stage.ProfileConfig(healsBriefly, fmt.Sprintf("{name: Reprieve, args: {terminationTimeout: %v, gang: {healTimeout: %v}}}", terminationTimeout, healTimeout)),
	}}
}

// env is the environment of one test: its namespace and its nodes.
type env struct {
	*stage.Stage
}

func newEnv(t *testing.T) *env {
	t.Helper()
	s := shared.In(t)
	s.Groups = stage.ReprieveGroups()
	return &env{s}
}

// alone starts a playground without nodes for one test.
func alone(t *testing.T) *env {
	t.Helper()
	config, err := schedulerConfig().Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := stage.New(t, playground.Options{Scheduler: playground.SchedulerOptions{Config: config}})
	s.Groups = stage.ReprieveGroups()
	s.CreateClasses(priorityClasses)
	return &env{s}
}

// running creates a pod with 4 CPUs on a node, and waits until it runs.
func (e *env) running(name, priority, node string, change ...func(*corev1.Pod)) {
	e.Helper()
	pod := stage.NewPod(e.Namespace, name, priority, 4)
	pod.Spec.NodeSelector[corev1.LabelHostname] = e.NodeName(node)
	for _, c := range change {
		c(pod)
	}
	e.Create(pod)
	e.Runs(name, 1)
}

// urgent creates preemptors: count pods with 4 CPUs, either as a gang or as single pods.
func (e *env) urgent(count int, isGang bool) {
	e.Helper()
	if isGang {
		e.CreateGroup(stage.Group{Name: "urgent", MinCount: int32(count), Priority: "high"})
	}
	for i := range count {
		pod := stage.NewPod(e.Namespace, fmt.Sprintf("urgent-%d", i), "high", 4)
		if isGang {
			e.Groups.Join(pod, "urgent")
		}
		e.Create(pod)
	}
}

// nominated returns the short names of the nodes that the preemptors are nominated to.
func (e *env) nominated(ctx context.Context) []string {
	e.Helper()
	var out []string
	for _, pod := range e.Pods(ctx, "urgent") {
		if n := pod.Status.NominatedNodeName; n != "" {
			out = append(out, e.short(n))
		}
	}
	slices.Sort(out)
	return out
}

// short returns the name of a node without the prefix of the test.
func (e *env) short(node string) string { return strings.TrimPrefix(node, e.NodeName("")) }

// letGo removes the finalizers of all terminating pods, so that the API server deletes these pods.
func (e *env) letGo() {
	e.Helper()
	ctx := context.WithoutCancel(e.Context())
	e.LetGo(e.Terminating(ctx)...)
}

// soon waits until condition returns "". It fails if this takes longer than promptly.
func (e *env) soon(what string, condition func(ctx context.Context) string) {
	e.Helper()
	began := time.Now()
	e.Eventually(what, condition)
	took := time.Since(began)
	e.Logf("%s, after %v", what, took.Round(time.Millisecond))
	if took > promptly {
		e.Errorf("%s, but that took %v", what, took)
	}
}
