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
	// secondProfile is a second profile of the scheduler under test.
	secondProfile = "second-scheduler"
	// countedProfile is the profile of a single test, which counts its scheduling attempts.
	countedProfile = "counted-scheduler"
)

// shared is the playground of this package.
var shared = stage.Shared{
	// The tests of gangs and preemption run with the PodGroups of both APIs. Serving one API does
	// not affect the other.
	Options:  playground.Options{NativeWorkloadAPI: true},
	Parallel: 6,
	Begin:    begin,
}

func TestMain(m *testing.M) { os.Exit(shared.RunTests(m)) }

// begin creates the PriorityClasses that all tests share, and starts the scheduler.
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

// env has the namespace and nodes of one test.
type env struct {
	*stage.Stage
}

// newEnv creates a namespace for a test of one API's PodGroups.
func newEnv(t *testing.T, api stage.GroupAPI) *env {
	t.Helper()
	s := shared.In(t)
	s.Groups = api
	return &env{s}
}

// with returns the same environment for PodGroups of another API.
func (e *env) with(api stage.GroupAPI) *env { return &env{e.With(api)} }

// attempts returns the number of a profile's scheduling attempts with the given result.
func (e *env) attempts(profile, result string) int {
	e.Helper()
	return int(e.Metrics(e.Run.Component(playground.Scheduler)).Sum("scheduler_schedule_attempts_total",
		`profile="`+profile+`"`, `result="`+result+`"`))
}

// removeNode deletes a node and all its pods.
func (e *env) removeNode(short string) {
	e.Helper()
	if err := e.Kube.CoreV1().Nodes().Delete(e.Context(), e.NodeName(short), metav1.DeleteOptions{}); err != nil {
		e.Fatalf("delete node %s: %v", short, err)
	}
}
