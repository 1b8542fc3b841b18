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

// Shared is a playground for all tests of a package. It starts when the first test calls In.
type Shared struct {
	// Options has the options of the playground. Shared itself sets the directory of the binaries
	// and the CRDs, and starts no scheduler.
	Options playground.Options
	// Parallel is the number of tests that run in parallel. It may exceed the number of cores,
	// because the tests mostly wait.
	Parallel int
	// Begin starts a scheduler and creates the objects that all tests share. Its context ends with
	// the last test. dir is a directory for files, which is removed at the end.
	Begin func(ctx context.Context, s *Stage, dir string) error
	// End checks the playground after the last test. It may be nil.
	End func(s *Stage) error

	once  sync.Once
	stage *Stage
	dir   string
	err   error
}

// RunTests runs the tests of a package, stops the playground, and returns the exit code. It is for
// TestMain.
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
		err = sh.stage.comeToRest()
		if sh.End != nil {
			err = errors.Join(err, sh.End(sh.stage))
		}
		err = errors.Join(err, sh.stage.Run.Stop())
	}
	if sh.dir != "" {
		err = errors.Join(err, os.RemoveAll(sh.dir))
	}
	return err
}

// In returns the playground for a test, and creates a namespace for the test.
func (sh *Shared) In(t *testing.T) *Stage {
	t.Helper()
	options := complete(t, sh.Options)
	sh.once.Do(func() {
		// The start may end the present test, for example by t.Fatal. The other tests then get this
		// error.
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
	// Use a context that does not end with the test, because other tests use the playground too.
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
