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

// Shared is a playground for all tests of a package. The first test that asks for it starts it.
type Shared struct {
	// Options are the options of the playground. The directory of binaries and the CRDs are set,
	// and the scheduler is off.
	Options playground.Options
	// Parallel is the number of tests that run in parallel. They wait for one scheduler most of the
	// time.
	Parallel int
	// Begin starts a scheduler and creates the objects that all tests share. The context outlives
	// the first test. The directory is removed with the playground.
	Begin func(ctx context.Context, s *Stage, dir string) error

	once  sync.Once
	stage *Stage
	dir   string
	err   error
}

// RunTests runs the tests of a package, stops the playground, and returns the exit code.
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

// In returns the playground for a test, with a namespace for that test.
func (sh *Shared) In(t *testing.T) *Stage {
	t.Helper()
	options := complete(t, sh.Options)
	sh.once.Do(func() {
		// Other tests see this error if this test ends here.
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
	// The playground outlives the first test.
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
