package report

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Party is a workload as one decision knows it: the preemptor or a victim.
type Party struct {
	Namespace, Name, UID string
	// Group tells a PodGroup from a pod.
	Group bool
	// Priority is nil where it is not known.
	Priority *int32
	// Queue is its leaf queue, "" for none, or where that is not known.
	Queue string
}

// Stop is a victim, with what is lost with it.
type Stop struct {
	Party
	Rule string
	Pods []core.VictimPod
	// Since is when it started; zero where that is not known.
	Since time.Time
	// Measured is true where GPUHours and CPUHours are known.
	Measured           bool
	GPUHours, CPUHours float64
}

// Entry is one decision, as the report goes by it.
type Entry struct {
	// ID names the decision in links: it stays the same when there are more of them.
	ID        string
	Time      time.Time
	Process   string
	Sequence  uint64
	Preemptor Party
	Outcome   core.Outcome
	State     decisionlog.State
	// Ended is when it was known what became of it; zero where there was nothing to carry out.
	Ended time.Time
	Stops []Stop
	// Begun is how many pods of the victims went although the decision was given up or failed.
	Begun int
	// Error is what was in the way of carrying it out.
	Error string
	// Message says it in one sentence, and WaitsFor what it waits for.
	Message, WaitsFor string
	Repeated          bool
	MinCount          int
	Asks              []decisionlog.Ask
	Placements        []core.Placement
	Protected         []core.RuleCount
	ProtectedUnits    []core.ProtectedUnit
	Reprieved         int
	ReprievedUnits    []core.UnitRef
	NodesOut          []core.ReasonCount
	RetryAt           int64
}

// FromRecord is the entry of one record.
func FromRecord(r *decisionlog.Record) Entry {
	d := &r.Decision
	e := Entry{
		ID: r.Process + "/" + strconv.FormatUint(r.Sequence, 10), Time: r.Time, Process: r.Process, Sequence: r.Sequence,
		Preemptor: Party{
			Namespace: d.Preemptor.Namespace, Name: d.Preemptor.Name, UID: d.Preemptor.UID, Group: d.Preemptor.Gang,
			Priority: &d.Preemptor.Priority, Queue: d.Preemptor.Queue,
		},
		Outcome: d.Outcome, State: r.Result.State, Ended: r.Result.Time, Begun: r.Result.Begun, Error: r.Result.Error,
		Message: d.Message, WaitsFor: r.WaitsFor, Repeated: r.Repeated, MinCount: d.Preemptor.MinCount, Asks: r.Asks,
		Placements: d.Placements, Protected: d.Protected, ProtectedUnits: d.ProtectedUnits,
		Reprieved: d.Reprieved, ReprievedUnits: d.ReprievedUnits, NodesOut: d.NodesOut, RetryAt: d.RetryAt,
	}
	lost := make(map[string]*decisionlog.Lost, len(r.Lost))
	for i := range r.Lost {
		lost[r.Lost[i].UID] = &r.Lost[i]
	}
	for i := range d.Victims {
		v := &d.Victims[i]
		stop := Stop{
			Party: Party{Namespace: v.Namespace, Name: v.Name, UID: v.UID, Group: v.Group, Priority: &v.Priority, Queue: v.Queue},
			Rule:  string(v.Rule), Pods: v.Pods,
		}
		if l := lost[v.UID]; l != nil {
			stop.Measured, stop.Since = true, l.Since
			stop.GPUHours, stop.CPUHours = hoursOf(l.Spent)
		}
		e.Stops = append(e.Stops, stop)
	}
	return e
}

// hoursOf are the GPU-hours and CPU-hours of amounts by resource times seconds.
func hoursOf(spent map[string]float64) (gpu, cpu float64) {
	names := make([]string, 0, len(spent))
	for resource := range spent {
		names = append(names, resource)
	}
	// In one order, so that the same record makes the same sum.
	slices.Sort(names)
	for _, resource := range names {
		switch {
		case resource == "cpu":
			cpu += spent[resource] / 1000 / 3600
		case workload.IsGPU(resource):
			gpu += spent[resource] / 3600
		}
	}
	return gpu, cpu
}

// Happened reports whether the victims have been stopped, or are being stopped.
func (e *Entry) Happened() bool {
	return e.Outcome == core.Preempts && (e.State == decisionlog.CarriedOut || e.State == decisionlog.UnderWay)
}

// inOrder sorts entries by time, and leaves the one that knows most of what became of it where several tell of one decision.
func inOrder(entries []Entry) []Entry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), b.Ended.Compare(a.Ended))
	})
	out = slices.CompactFunc(out, func(a, b Entry) bool { return a.ID == b.ID })
	slices.SortStableFunc(out, func(a, b Entry) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID))
	})
	return out
}
