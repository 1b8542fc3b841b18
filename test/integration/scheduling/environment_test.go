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
	// secondProfile is another one of the scheduler under test.
	secondProfile = "second-scheduler"
	// countedProfile serves one test only, which counts its scheduling attempts.
	countedProfile = "counted-scheduler"
)

// shared is the playground of this package.
var shared = stage.Shared{
	// The tests of gangs and preemption run on both APIs, which does not change what the other one does.
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

// env is what one test works with: a namespace and nodes of its own.
type env struct {
	*stage.Stage
}

// newEnv makes a namespace, for a test of one API's PodGroups.
func newEnv(t *testing.T, api stage.GroupAPI) *env {
	t.Helper()
	s := shared.In(t)
	s.Groups = api
	return &env{s}
}

// with is the same environment, for PodGroups of another API.
func (e *env) with(api stage.GroupAPI) *env { return &env{e.With(api)} }

// attempts reads how many scheduling attempts of a profile have ended with that result.
func (e *env) attempts(profile, result string) int {
	e.Helper()
	return int(e.Metrics(e.Run.Component(playground.Scheduler)).Sum("scheduler_schedule_attempts_total",
		`profile="`+profile+`"`, `result="`+result+`"`))
}

// removeNode deletes a node, and all that runs there.
func (e *env) removeNode(short string) {
	e.Helper()
	if err := e.Kube.CoreV1().Nodes().Delete(e.Context(), e.NodeName(short), metav1.DeleteOptions{}); err != nil {
		e.Fatalf("delete node %s: %v", short, err)
	}
}
