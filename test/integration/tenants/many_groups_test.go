package tenants

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// manyGroups is the number of PodGroups of a tenant that changes all of them.
const manyGroups = 3000

// newOwn returns a playground with the installation of deploy/, and its scheduler. No other test
// uses it.
func newOwn(t *testing.T) (*stage.Stage, *playground.Component) {
	t.Helper()
	root := stage.New(t, playground.Options{Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler}})
	root.CreateClasses(priorityClasses)
	options, err := install(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := root.Run.StartScheduler(t.Context(), playground.Scheduler, options)
	if err != nil {
		t.Fatal(err)
	}
	return root, scheduler
}

// TestManyGroupsDelayNoOthers tests a tenant that creates thousands of PodGroups and changes all of
// them as fast as the API server answers. Each change needs a new status. A gang of another
// namespace must run soon, and its startTime must be written soon. The test has a playground of its
// own, and does not run in parallel, because its load would delay other tests.
func TestManyGroupsDelayNoOthers(t *testing.T) {
	root, _ := newOwn(t)
	e, other := envOf(t, root.In(t)), root.In(t)
	other.AddNodes(8, "a")
	_, calm := startsGang(other, "calm")
	most := bearable(calm)
	e.createMany("many", manyGroups)
	e.changing(func(ctx context.Context, n int) error {
		// Each minCount of a group is new, so each change changes the message of its condition.
		pg := e.group(fmt.Sprintf("many-%d", n%manyGroups), "low", "", 0)
		return e.edit.Patch(ctx, pg, client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, 2+n/manyGroups)))
	})
	for i := range 3 {
		ran, started := startsGang(other, fmt.Sprintf("other-%d", i))
		if ran > most || started > most {
			t.Errorf("gang %d ran after %v, and had its startTime after %v, want at most %v", i, ran, started, most)
		}
	}
}

// startsGang creates a gang of two pods. It returns the times until the pods run and until the
// PodGroup has its startTime.
func startsGang(s *stage.Stage, name string) (ran, started time.Duration) {
	s.Helper()
	began := time.Now()
	s.CreateGroup(stage.Group{Name: name, MinCount: 2, Priority: "low"})
	for member := range 2 {
		pod := stage.NewPod(s.Namespace, fmt.Sprintf("%s-%d", name, member), "low", 1)
		s.Groups.Join(pod, name)
		s.Create(pod)
	}
	s.Runs(name+"-", 2)
	ran = time.Since(began)
	s.Eventually("the startTime is written", func(ctx context.Context) string {
		pg, ok := s.PodGroup(ctx, name).(*v1alpha1.PodGroup)
		if !ok || pg.Status.StartTime == nil {
			return "it is not"
		}
		return ""
	})
	started = time.Since(began)
	s.Logf("%s ran after %v, and had its startTime after %v", name, ran, started)
	return ran, started
}

// createMany creates PodGroups without members, as the tenant.
func (e *env) createMany(name string, count int) {
	e.Helper()
	began := time.Now()
	var creations errgroup.Group
	creations.SetLimit(changers)
	for i := range count {
		creations.Go(func() error {
			return e.edit.Create(e.Context(), e.group(fmt.Sprintf("%s-%d", name, i), "low", "", 1))
		})
	}
	e.do(creations.Wait())
	e.Logf("The tenant has created %d PodGroups in %v", count, time.Since(began))
}
