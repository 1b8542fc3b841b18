package stage

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// Pool holds playgrounds for tests that need a whole cluster, because their objects have no
// namespace. A test that has passed leaves its playground, emptied, to the next test. So there are
// only as many playgrounds as tests that run in parallel.
type Pool struct {
	// Options returns the options of a playground. The pool sets the directory of binaries and the
	// CRDs.
	Options func() playground.Options
	// Clear removes the objects of a test after its end.
	Clear func(*Stage)

	mu   sync.Mutex
	idle []*Stage
}

// Take lends a playground to a test. The test uses the default namespace.
func (p *Pool) Take(t *testing.T) *Stage {
	t.Helper()
	options := complete(t, p.Options())
	s := p.pop()
	if s == nil {
		// The playground outlives the test.
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

// giveBack keeps the playground for the next test, unless the test or the playground has failed.
func (p *Pool) giveBack(s *Stage) {
	s.settles()
	s.plansHold()
	s.explain()
	p.Clear(s)
	// A plan for work that is being deleted may fail. It must not count for the next test.
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

// End stops the playgrounds after all tests have ended.
func (p *Pool) End() error {
	var errs []error
	for s := p.pop(); s != nil; s = p.pop() {
		errs = append(errs, s.Run.Stop())
	}
	return errors.Join(errs...)
}
