package stage

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// Pool has playgrounds for tests that need a whole cluster, because they use cluster-scoped
// objects. If a test passes, its playground is cleared and used for another test. So the number of
// playgrounds is at most the number of parallel tests.
type Pool struct {
	// Options returns the options of a playground. The pool sets the directory of the binaries and
	// the CRDs.
	Options func() playground.Options
	// Clear deletes the objects of a test after its end.
	Clear func(*Stage)

	mu   sync.Mutex
	idle []*Stage
}

// Take returns a playground for a test. The test uses the namespace default. After the test, the
// playground returns to the pool.
func (p *Pool) Take(t *testing.T) *Stage {
	t.Helper()
	options := complete(t, p.Options())
	s := p.pop()
	if s == nil {
		// Use a context that does not end with the test, because later tests use the playground.
		run, err := playground.Start(context.WithoutCancel(t.Context()), options)
		if err != nil {
			t.Fatalf("start a playground: %v", err)
		}
		s = on(t, run)
	}
	s = s.For(t)
	t.Cleanup(func() { p.giveBack(s) })
	return s
}

func (p *Pool) pop() *Stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	last := len(p.idle) - 1
	s := p.idle[last]
	p.idle = p.idle[:last]
	return s
}

// giveBack checks and clears the playground at the end of a test, and returns it to the pool. If
// the test or the playground has failed, giveBack stops the playground instead.
func (p *Pool) giveBack(s *Stage) {
	s.settles()
	s.plansHold()
	s.explain()
	p.Clear(s)
	// While objects are deleted, plans may fail. Ignore these failures in the next test.
	s.repeated = s.plansRepeated()
	if err := s.Run.Err(); err != nil {
		s.Errorf("the playground: %v", err)
	}
	if s.Failed() {
		if err := s.Run.Stop(); err != nil {
			s.Errorf("stop the playground: %v", err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, s)
}

// End stops all playgrounds. Call it after all tests.
func (p *Pool) End() error {
	var errs []error
	for s := p.pop(); s != nil; s = p.pop() {
		errs = append(errs, s.Run.Stop())
	}
	return errors.Join(errs...)
}
