package groups

import (
	"syscall"
	"testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// TestRestart kills the scheduler and starts it again. The new scheduler must use the existing
// derived PodGroups. No member may start without its gang.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := start(t).In(t)
	s.AddNodes(4, "a")
	job(s, "first", on, "", "parallelism: 3")
	s.Runs("first-", 3)
	running := group(s, "first-", "runs", func(pg *v1alpha1.PodGroup) bool { return pg.Status.Scheduled == 3 })
	job(s, "second", on, "", "parallelism: 4")
	noRoom(s, "second-", "second-")
	waiting := group(s, "second-", "waits", needs(4))

	scheduler := s.Run.Component(playground.Scheduler)
	if err := scheduler.Kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	job(s, "third", on, "", "parallelism: 2")
	if err := scheduler.Start(s.Context()); err != nil {
		t.Fatal(err)
	}
	group(s, "third-", "is made by the one that follows", needs(2))
	noRoom(s, "third-", "third-", "second-")
	s.AddNodes(8, "b")
	s.Runs("second-", 4)
	s.Runs("third-", 2)
	all := groups(s.Context(), s)
	if len(all) != 3 {
		t.Errorf("there are %d PodGroups, want three", len(all))
	}
	for _, pg := range all {
		if pg.Name == running.Name && pg.UID != running.UID || pg.Name == waiting.Name && pg.UID != waiting.UID {
			t.Errorf("PodGroup %s has been made anew", pg.Name)
		}
	}
}
