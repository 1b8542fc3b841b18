package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/parallel"
)

// Shared is a playground for all tests of a package, which the first one that asks for it starts.
type Shared struct {
	// Options are those of the playground. Directory of binaries and CRDs are filled in, and there is no scheduler.
	Options playground.Options
	// Parallel is how many tests run side by side: most of the time they wait, for one scheduler.
	Parallel int
	// Begin starts a scheduler, and makes what all tests have in common. The context outlives the test that is the
	// first; the directory goes with the playground.
	Begin func(ctx context.Context, s *Stage, dir string) error

	once  sync.Once
	stage *Stage
	dir   string
	err   error
}

// RunTests runs the tests of a package, ends the playground, and returns what to exit with.
func (sh *Shared) RunTests(m *testing.M) int {
	code := parallel.Run(m, sh.Parallel)
	if err := sh.end(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func (sh *Shared) end() error {
	var err error
	if sh.stage != nil {
		err = errors.Join(sh.stage.comeToRest(), sh.stage.Run.Stop())
	}
	if sh.dir != "" {
		err = errors.Join(err, os.RemoveAll(sh.dir))
	}
	return err
}

// In is the playground, for a test that has a namespace of its own there.
func (sh *Shared) In(t *testing.T) *Stage {
	t.Helper()
	options := complete(t, sh.Options)
	sh.once.Do(func() {
		// For whoever comes next, if this test ends here.
		sh.err = errors.New("it has not come up for another test")
		sh.err = sh.start(t, options)
	})
	if sh.err != nil {
		t.Fatalf("start the playground: %v", sh.err)
	}
	return sh.stage.In(t)
}

func (sh *Shared) start(t *testing.T, options playground.Options) error {
	t.Helper()
	// It outlives the test that happens to be first.
	ctx := context.WithoutCancel(t.Context())
	var err error
	if sh.dir, err = os.MkdirTemp("", "reprieve-test-"); err != nil { //nolint:usetesting // It outlives the test that is first.
		return err
	}
	options.Scheduler = playground.SchedulerOptions{Path: playground.NoScheduler}
	run, err := playground.Start(ctx, options)
	if err != nil {
		return err
	}
	sh.stage = on(t, run)
	return sh.Begin(ctx, sh.stage, sh.dir)
}
