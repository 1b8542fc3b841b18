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

// Party is the preemptor or a victim of a decision, with its properties at the time of the
// decision.
type Party struct {
	Namespace, Name, UID string
	// Group is true for a PodGroup and false for a pod.
	Group bool
	// Priority is nil if it is unknown.
	Priority *int32
	// Queue is the workload's leaf queue. It is empty if the workload has none or its queue is
	// unknown.
	Queue string
}

// Stop is the eviction of one victim, with the work that is lost.
type Stop struct {
	Party
	Rule string
	Pods []core.VictimPod
	// LostDeviceHours is the work that the victim loses since its last checkpoint. The work of
	// other pods of its gang is not included.
	LostDeviceHours float64
	// Since is the time when the victim started, or zero if that is unknown.
	Since time.Time
	// Measured is true if GPUHours and CPUHours are known.
	Measured           bool
	GPUHours, CPUHours float64
}

// Entry is one decision with the data for a report.
type Entry struct {
	// ID identifies the decision in links. It does not change when further decisions are added to
	// the report.
	ID        string
	Time      time.Time
	Process   string
	Sequence  uint64
	Preemptor Party
	Outcome   core.Outcome
	State     decisionlog.State
	// Ended is the time of the decision's result. It is zero if the decision evicts nothing.
	Ended time.Time
	Stops []Stop
	// Begun is the number of pods that were evicted although the decision was given up or failed.
	Begun int
	// LostDeviceHours is the work that the decision loses in total, or 0 if that is unknown.
	LostDeviceHours float64
	// Error is the reason why the evictions were given up or failed.
	Error string
	// Message summarizes the decision in one sentence. WaitsFor describes the pods or the limit
	// that the preemptor waits for.
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
	// Domains describes the compared topology domains, one per line.
	Domains []string
	RetryAt int64
}

// FromRecord converts a record of the decision log to an entry.
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
		LostDeviceHours: core.DeviceHours(d.LostWork), Reprieved: d.Reprieved, ReprievedUnits: d.ReprievedUnits, NodesOut: d.NodesOut, RetryAt: d.RetryAt,
		Domains: core.DomainNotes(d),
	}
	lost := make(map[string]*decisionlog.Lost, len(r.Lost))
	for i := range r.Lost {
		lost[r.Lost[i].UID] = &r.Lost[i]
	}
	for i := range d.Victims {
		v := &d.Victims[i]
		stop := Stop{
			Party: Party{Namespace: v.Namespace, Name: v.Name, UID: v.UID, Group: v.Group, Priority: &v.Priority, Queue: v.Queue},
			Rule:  string(v.Rule), Pods: v.Pods, LostDeviceHours: core.DeviceHours(v.LostWork),
		}
		if l := lost[v.UID]; l != nil {
			stop.Measured, stop.Since = true, l.Since
			stop.GPUHours, stop.CPUHours = hoursOf(l.Spent)
		}
		e.Stops = append(e.Stops, stop)
	}
	return e
}

// hoursOf returns the GPU-hours and CPU-hours in spent. spent maps a resource to an amount
// multiplied by seconds; CPU is in milli-CPUs.
func hoursOf(spent map[string]float64) (gpu, cpu float64) {
	names := make([]string, 0, len(spent))
	for resource := range spent {
		names = append(names, resource)
	}
	// Floating-point sums depend on the order, so a fixed order keeps reports equal.
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

// Happened reports whether the victims were evicted or are being evicted.
func (e *Entry) Happened() bool {
	return e.Outcome == core.Preempts && (e.State == decisionlog.CarriedOut || e.State == decisionlog.UnderWay)
}

// inOrder returns the entries sorted by time. If several entries have one ID, it keeps the entry
// with the latest Ended, which has the most complete result.
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
