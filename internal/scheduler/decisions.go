package scheduler

import (
	"errors"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/eviction"
)

// DecisionLog keeps a record of decisions. Scheduling cycles call it, so it must not wait for anything.
type DecisionLog interface {
	// Record takes note of a decision of which it is known what becomes of it.
	Record(r decisionlog.Record)
	// Follow takes note of a decision that is being carried out; ended is called once, from any goroutine.
	Follow(r decisionlog.Record) (ended func(decisionlog.Result))
}

var _ DecisionLog = (*decisionlog.Log)(nil)

// unrecorded keeps no record.
type unrecorded struct{}

// Record is part of DecisionLog.
func (unrecorded) Record(decisionlog.Record) {}

// Follow is part of DecisionLog.
func (unrecorded) Follow(decisionlog.Record) func(decisionlog.Result) {
	return func(decisionlog.Result) {}
}

// recordOf describes a decision for the record.
func (p *Plugin) recordOf(made *cycleDecision) decisionlog.Record {
	return decisionlog.Record{
		Time: p.hub.clock.Now(), Profile: p.handle.ProfileName(),
		Asks:     decisionlog.AsksOf(made.decision.Preemptor.Classes, made.view.Cluster.Resources),
		Repeated: made.repeated, WaitsFor: made.waitsFor(), Decision: made.decision,
	}
}

// record takes note of a decision that there is nothing to carry out of.
func (p *Plugin) record(made *cycleDecision) {
	r := p.recordOf(made)
	r.Result.State = decisionlog.Waiting
	p.hub.decisions.Record(r)
}

// follow takes note of a decision that is being carried out. What it returns is told the outcome.
func (p *Plugin) follow(made *cycleDecision) (ended func(eviction.Outcome)) {
	tell := p.hub.decisions.Follow(p.recordOf(made))
	return func(outcome eviction.Outcome) {
		result := decisionlog.Result{State: decisionlog.CarriedOut, Time: p.hub.clock.Now(), Begun: outcome.Begun.Len()}
		if outcome.Err != nil {
			result.State, result.Error = decisionlog.Failed, outcome.Err.Error()
		}
		if errors.Is(outcome.Err, eviction.ErrOutdated) {
			result.State = decisionlog.GivenUp
		}
		tell(result)
	}
}
