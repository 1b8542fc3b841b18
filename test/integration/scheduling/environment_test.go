package scheduling

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// secondProfile is the name of the scheduler's second profile.
	secondProfile = "second-scheduler"
	// countedProfile is the name of a profile that only one test uses. The test counts its
	// scheduling attempts.
	countedProfile = "counted-scheduler"
)

// shared is the playground that all tests of the package share.
var shared = stage.Shared{
	// Tests of gangs and preemption use the PodGroups of two API groups: reprieve.dev, and
	// scheduling.k8s.io.
	Options:  playground.Options{NativeWorkloadAPI: true},
	Parallel: 6,
	Begin:    begin,
}

func TestMain(m *testing.M) { os.Exit(shared.RunTests(m)) }

// begin creates the priority classes of all tests, and starts the scheduler.
func begin(ctx context.Context, s *stage.Stage, dir string) error {
	s.CreateClasses(map[string]int32{"low": 100, "mid": 500, "high": 1000, "higher": 2000, "unrelated": 7})
	s.Create(stage.NewClass("patient", 1000, stage.Never))
	config, err := stage.Config{Profiles: []string{
		stage.ProfileConfig(stage.Profile), stage.ProfileConfig(secondProfile), stage.ProfileConfig(countedProfile),
	}}.Write(dir)
	if err != nil {
		return err
	}
	_, err = s.Run.StartScheduler(ctx, playground.Scheduler, playground.SchedulerOptions{Config: config, Args: stage.SchedulerArgs()})
	return err
}

// env is the environment of one test: its namespace and its nodes.
type env struct {
	*stage.Stage
}

// newEnv creates a namespace for a test. The test's PodGroups belong to the given API.
func newEnv(t *testing.T, api stage.GroupAPI) *env {
	t.Helper()
	s := shared.In(t)
	s.Groups = api
	return &env{s}
}

// with returns a copy of the environment that uses another API for PodGroups.
func (e *env) with(api stage.GroupAPI) *env { return &env{e.With(api)} }

// attempts returns the number of scheduling attempts of a profile with the given result.
func (e *env) attempts(profile, result string) int {
	e.Helper()
	return int(e.Metrics(e.Run.Component(playground.Scheduler)).Sum("scheduler_schedule_attempts_total",
		`profile="`+profile+`"`, `result="`+result+`"`))
}

// removeNode deletes a node and the pods on it.
func (e *env) removeNode(short string) {
	e.Helper()
	if err := e.Kube.CoreV1().Nodes().Delete(e.Context(), e.NodeName(short), metav1.DeleteOptions{}); err != nil {
		e.Fatalf("delete node %s: %v", short, err)
	}
}
