package scheduler

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/eviction"
)

// DecisionLog keeps a record of decisions. Scheduling cycles call it, so it must not wait for anything.
type DecisionLog interface {
	// Record takes note of a decision of which it is known what becomes of it.
	Record(r decisionlog.Record)
	// Follow takes note of a decision that is being carried out; ended is called once, from any goroutine.
	// What is lost with its victims is asked for when it is needed, by any other goroutine.
	Follow(r decisionlog.Record, lost func() []decisionlog.Lost) (ended func(decisionlog.Result))
}

var _ DecisionLog = (*decisionlog.Log)(nil)

// unrecorded keeps no record.
type unrecorded struct{}

// Record is part of DecisionLog.
func (unrecorded) Record(decisionlog.Record) {}

// Follow is part of DecisionLog.
func (unrecorded) Follow(decisionlog.Record, func() []decisionlog.Lost) func(decisionlog.Result) {
	return func(decisionlog.Result) {}
}

// recordOf describes a decision for the record.
func (p *Plugin) recordOf(made *cycleDecision) decisionlog.Record {
	return decisionlog.Record{
		Time: p.hub.clock.Now(), Inputs: made.inputs, Profile: p.handle.ProfileName(),
		Asks:     decisionlog.AsksOf(made.decision.Preemptor.Classes, made.view.Cluster.Resources),
		Repeated: made.repeated, WaitsFor: made.waitsFor(), Decision: made.decision,
	}
}

// lostWith is the work that is lost with the victims of a decision, in their order, of which these are the pods.
func lostWith(victims []core.Victim, taken []*corev1.Pod, now time.Time) []decisionlog.Lost {
	if len(taken) == 0 {
		return nil
	}
	pods := byUID(taken)
	out := make([]decisionlog.Lost, 0, len(victims))
	for i := range victims {
		v := &victims[i]
		lost := decisionlog.Lost{UID: v.UID}
		for _, named := range v.Pods {
			if pod := pods[types.UID(named.UID)]; pod != nil && pod.Status.StartTime != nil {
				lost.Spend(pod.Status.StartTime.Time, now, givenTo(pod))
			}
		}
		out = append(out, lost)
	}
	return out
}

// givenTo is what a pod has been given, by resource, in the units of the record.
func givenTo(pod *corev1.Pod) map[string]int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out := make(map[string]int64, len(requests))
	for name, quantity := range requests {
		if out[string(name)] = quantity.Value(); name == corev1.ResourceCPU {
			out[string(name)] = quantity.MilliValue()
		}
	}
	return out
}

// record takes note of a decision that there is nothing to carry out of.
func (p *Plugin) record(made *cycleDecision) {
	r := p.recordOf(made)
	r.Result.State = decisionlog.Waiting
	p.hub.decisions.Record(r)
}

// follow takes note of a decision that is being carried out. What it returns is told the outcome.
func (p *Plugin) follow(made *cycleDecision) (ended func(eviction.Outcome)) {
	r, taken := p.recordOf(made), made.victims
	tell := p.hub.decisions.Follow(r, func() []decisionlog.Lost { return lostWith(r.Decision.Victims, taken, r.Time) })
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
