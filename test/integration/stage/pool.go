package stage

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// Pool has playgrounds for tests that need one to themselves, as what they are about is in no namespace. A test that has
// passed leaves its playground to the next one, as empty as it was, so there are only as many as tests run at a time.
type Pool struct {
	// Options are those of each playground. Directory of binaries and CRDs are filled in.
	Options func() playground.Options
	// Clear removes what a test has created, when it has ended.
	Clear func(*Stage)

	mu   sync.Mutex
	idle []*Stage
}

// Take lends a playground to a test, which has the default namespace.
func (p *Pool) Take(t *testing.T) *Stage {
	t.Helper()
	options := complete(t, p.Options())
	s := p.pop()
	if s == nil {
		// It outlives the test.
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

// giveBack keeps the playground for the next test, unless something is wrong with it.
func (p *Pool) giveBack(s *Stage) {
	s.settles()
	s.plansHold()
	s.explain()
	p.Clear(s)
	// Work that is planned just as it is deleted comes to nothing, which is not for the next test to answer for.
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

// End stops the playgrounds, when all tests have ended.
func (p *Pool) End() error {
	var errs []error
	for s := p.pop(); s != nil; s = p.pop() {
		errs = append(errs, s.Run.Stop())
	}
	return errors.Join(errs...)
}
