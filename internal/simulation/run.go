package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// ErrInput is wrapped by all errors about an invalid Input.
var ErrInput = errors.New("this cannot be simulated")

// Run simulates an input under a policy. It returns an error that wraps ErrInput if the input is
// invalid. It returns the context's error if the context ends before the simulation does.
func Run(ctx context.Context, in *Input, p Policy, o Options) (*Result, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	s := newSimulation(in, p, o, &watch{progress: o.Progress})
	s.load(in)
	if err := s.run(ctx, in.Start.Add(o.Lasts)); err != nil {
		return nil, fmt.Errorf("simulate %s: %w", p.Name, err)
	}
	return s.result(in), nil
}

// load starts the work that runs at the beginning, and schedules the arrivals of all other work.
func (s *simulation) load(in *Input) {
	for i := range in.Work {
		w := &in.Work[i]
		if w.On != nil {
			for k, j := range s.jobsOf(w) {
				on, ran := w.On, w.Ran
				if j.crew != nil {
					on = w.On[k : k+1]
				}
				s.atStart(j, on, ran)
			}
			continue
		}
		s.at(in.Start.Add(w.Submitted), func() {
			for _, j := range s.jobsOf(w) {
				s.arrive(j)
			}
		})
	}
}

func (in *Input) check() error {
	if len(in.Nodes) == 0 {
		return fmt.Errorf("%w: it has no nodes", ErrInput)
	}
	dims := len(in.Resources)
	for i := range in.Nodes {
		if len(in.Nodes[i].Allocatable) != dims {
			return fmt.Errorf("%w: node %s has %d amounts for %d resources", ErrInput, in.Nodes[i].Name, len(in.Nodes[i].Allocatable), dims)
		}
	}
	for i := range in.Work {
		w := &in.Work[i]
		fits := len(w.Requests) > 0 && w.MinCount > 0 && w.MinCount <= len(w.Requests) && (w.Gang || len(w.Requests) == 1)
		for _, r := range w.Requests {
			fits = fits && len(r) == dims
		}
		if !fits || w.On != nil && len(w.On) != len(w.Requests) {
			return fmt.Errorf("%w: %s/%s has %d pods of which %d are needed, on %d nodes", ErrInput, w.Namespace, w.Name, len(w.Requests), w.MinCount, len(w.On))
		}
	}
	return nil
}

// watch is an observer that only reports progress.
type watch struct {
	progress func(time.Duration)
	told     time.Time
}

var _ observer = (*watch)(nil)

// passes reports the progress once for each simulated hour.
func (w *watch) passes(s *simulation, until time.Time) {
	if hour := until.Truncate(time.Hour); w.progress != nil && hour.After(w.told) {
		w.told = hour
		w.progress(until.Sub(s.begins))
	}
}

func (*watch) decided(*simulation, *job, *core.Preemptor, *core.Decision) {}

func (*watch) toldTheSame(*simulation, *job, *core.Preemptor, []core.Hold) {}

func (*watch) overLimit(*simulation, *job) {}

func (*watch) settled(*simulation) {}
