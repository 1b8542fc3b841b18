package scheduler

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// recordedWaits reports to the decision log how the waits of workloads end. The watchers and the
// plugin call it when a workload is bound or deleted. Its counterpart [engine.Waits] holds the
// causes of the waits. It is safe for concurrent use.
type recordedWaits struct {
	index     *cluster.Index
	decisions DecisionLog
	clock     clock.WithTicker
}

// DecisionLog keeps records of decisions. Its methods must not block, because scheduling cycles
// call them.
type DecisionLog interface {
	// Record records a decision whose result is known, because it evicts nothing.
	Record(r decisionlog.Record)
	// Follow records a decision whose evictions are under way. The caller calls ended once with the
	// result, from any goroutine. The function lost computes the work that is lost with the
	// victims. The log calls it later, from its own goroutine.
	Follow(r decisionlog.Record, lost func() []decisionlog.Lost) (ended func(decisionlog.Result))
	// Awaits reports whether a workload still waits after its last decision. Any goroutine may call
	// it.
	Awaits(key workload.Key) bool
	// EndWait records how the wait of a workload ended. Any goroutine may call it.
	EndWait(key workload.Key, how decisionlog.End, at time.Time)
}

var _ DecisionLog = (*decisionlog.Log)(nil)

// noDecisionLog is a DecisionLog that records nothing.
type noDecisionLog struct{}

// Record is part of DecisionLog.
func (noDecisionLog) Record(decisionlog.Record) {}

// Follow is part of DecisionLog.
func (noDecisionLog) Follow(decisionlog.Record, func() []decisionlog.Lost) func(decisionlog.Result) {
	return func(decisionlog.Result) {}
}

// Awaits is part of DecisionLog.
func (noDecisionLog) Awaits(workload.Key) bool { return false }

// EndWait is part of DecisionLog.
func (noDecisionLog) EndWait(workload.Key, decisionlog.End, time.Time) {}

func (p *Plugin) recordOf(made *cycleDecision) decisionlog.Record {
	return decisionlog.Record{
		Time: p.sched.clock.Now(), Inputs: made.inputs, Profile: p.handle.ProfileName(),
		Asks:     decisionlog.AsksOf(made.decision.Preemptor.Classes, made.view.Cluster.Resources),
		Repeated: made.repeated, WaitsFor: made.waitsFor(), Decision: made.decision,
	}
}

// lostWith returns the work that is lost with the victims of a decision, in the order of the
// victims. taken are the pods of all victims.
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

// givenTo returns the requests of a pod by resource, in the units of the log: millicores of CPU,
// and the base units of other resources.
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

// record records a decision that evicts nothing.
func (p *Plugin) record(made *cycleDecision) {
	r := p.recordOf(made)
	r.Result.State = decisionlog.Waiting
	p.sched.decisions.Record(r)
	p.endIfDeleted(made)
}

// endIfDeleted ends the recorded wait of a preemptor that was deleted during its cycle. The handler
// of the deletion ran before the decision was recorded, so it ended no wait.
func (p *Plugin) endIfDeleted(made *cycleDecision) {
	if !p.sched.engine.IsPresent(made.pre.key) {
		p.sched.recorded.end(made.pre.key, decisionlog.Gone)
	}
}

// end records how the wait of a workload ended, if its last decision left it waiting.
func (rw *recordedWaits) end(key workload.Key, how decisionlog.End) {
	if rw.decisions.Awaits(key) {
		rw.decisions.EndWait(key, how, rw.clock.Now())
	}
}

// memberBound ends the recorded wait of a gang if minCount of its members are bound.
func (rw *recordedWaits) memberBound(key types.NamespacedName) {
	work := gangKey(key)
	if !rw.decisions.Awaits(work) {
		return
	}
	g, ok := rw.index.Groups.Group(key)
	if members := rw.index.Lister.Members(key); ok && g.IsGang() && gang.IsPlaced(g, rw.index.Derived, &members) {
		rw.decisions.EndWait(work, decisionlog.Bound, rw.clock.Now())
	}
}

// follow records a decision whose evictions are under way. The caller passes their outcome to the
// returned function.
func (p *Plugin) follow(made *cycleDecision) (ended func(eviction.Outcome)) {
	r, taken := p.recordOf(made), made.victims
	tell := p.sched.decisions.Follow(r, func() []decisionlog.Lost { return lostWith(r.Decision.Victims, taken, r.Time) })
	p.endIfDeleted(made)
	return func(outcome eviction.Outcome) {
		result := decisionlog.Result{State: decisionlog.CarriedOut, Time: p.sched.clock.Now(), Begun: outcome.Begun.Len()}
		if outcome.Err != nil {
			result.State, result.Error = decisionlog.Failed, outcome.Err.Error()
		}
		if errors.Is(outcome.Err, eviction.ErrOutdated) {
			result.State = decisionlog.GivenUp
		}
		tell(result)
	}
}
