package report

import (
	"reflect"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// Schema is the version of a Report's JSON.
const Schema = "reprieve.dev/report/v1"

// Input is the data that a report is built from.
type Input struct {
	Entries []Entry
	// Ends are the ends of waits, in any order. Duplicates are permitted.
	Ends    []decisionlog.WaitEnd
	Sources []Source
	// Queues are the queues of the cluster, if they are known. The report adds other queues that
	// decisions name.
	Queues []Queue
	// Usage is the usage of queues over time. NoUsage is the reason why the usage is not known;
	// empty if it is.
	Usage   []Sample
	NoUsage string
	// Note describes the data that the entries lack; empty if they are complete records.
	Note string
	// Waiting are the workloads that wait now, in the order of their turns. If it is nil, the
	// report derives them from the entries.
	Waiting []Waiter
	// Map shows which workloads have GPUs; nil if that is not known.
	Map *Map
}

// Waiter is a workload that waits now.
type Waiter struct {
	Party
	Since time.Time
	// Reserved is true if room is reserved for the workload. Reason is the reason for the wait in
	// one word, and Cause in a sentence.
	Reserved      bool
	Reason, Cause string
}

// Queue is one queue of the cluster.
type Queue struct {
	Name, Parent string
	// Quota is the queue's quota by resource, as formatted quantities.
	Quota map[string]string
}

// Report is the data that the page draws. Workloads, queues and decisions are referred to by their
// indexes in the lists; -1 means none. Times are in milliseconds since 1970.
type Report struct {
	Schema  string     `json:"schema"`
	Sources []Source   `json:"sources"`
	Note    string     `json:"note,omitempty"`
	From    int64      `json:"from"`
	To      int64      `json:"to"`
	Totals  Totals     `json:"totals"`
	Queues  []QueueRow `json:"queues"`
	// Usage is the usage of queues over time, by resource. NoUsage is the reason why it is not
	// known.
	Usage     []Usage       `json:"usage"`
	NoUsage   string        `json:"noUsage,omitempty"`
	Workloads []WorkloadRow `json:"workloads"`
	Decisions []DecisionRow `json:"decisions"`
	// Waiting are the workloads that wait at the end. They are in the order of Input.Waiting, or
	// sorted by waiting time, the longest first.
	Waiting []WaitingRow `json:"waiting"`
	// Map shows which workloads have GPUs; nil if that is not known.
	Map  *Map `json:"map,omitempty"`
	Lost Lost `json:"lost"`
	// Matrices hold the losses by preemptor and victim, for queues, namespaces and priorities.
	Matrices []Matrix `json:"matrices"`
	Turns    []Turns  `json:"turns"`
	Again    []Again  `json:"again"`
	Unused   []Unused `json:"unused"`
}

// Totals are the sums of the whole report.
type Totals struct {
	Decisions   int `json:"decisions"`
	Preemptions int `json:"preemptions"`
	// Waiting counts the workloads that wait at the end. Reserved counts the waiting workloads with
	// reserved room.
	Waiting  int `json:"waiting"`
	Reserved int `json:"reserved"`
	Loss
}

// QueueRow is one queue. The rows are in the order of the tree, parents first.
type QueueRow struct {
	Name   string            `json:"name"`
	Parent int               `json:"parent"`
	Depth  int               `json:"depth"`
	Quota  map[string]string `json:"quota,omitempty"`
	// Took is the work that the queue's workloads evicted, and Lost the work that they lost. Both
	// include the queues below it.
	Took Loss `json:"took"`
	Lost Loss `json:"lost"`
}

// WorkloadRow is one workload. A workload that is created again under its name has the same row.
type WorkloadRow struct {
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	Group     bool   `json:"group,omitempty"`
	Queue     int    `json:"queue"`
	Priority  *int32 `json:"priority"`
	// Stopped counts the evictions of the workload, and Took the workloads that it evicted.
	Stopped int    `json:"stopped,omitempty"`
	Took    int    `json:"took,omitempty"`
	Spans   []Span `json:"spans,omitempty"`
}

// Kinds of spans.
const (
	// SpanWaits is for a workload that waits for room.
	SpanWaits = "waits"
	// SpanReserved is for a workload that waits until its reserved room is free.
	SpanReserved = "reserved"
	// SpanRuns is for a workload that has room.
	SpanRuns = "runs"
)

// Span is a time while a workload waits or runs, as far as the decisions show.
type Span struct {
	Kind string `json:"kind"`
	From int64  `json:"from"`
	// To is 0 if the decisions do not show when the span ended.
	To int64 `json:"to,omitempty"`
}

// DecisionRow is one decision.
type DecisionRow struct {
	ID        string            `json:"id"`
	At        int64             `json:"at"`
	Ended     int64             `json:"ended,omitempty"`
	Preemptor int               `json:"w"`
	Priority  *int32            `json:"priority"`
	Outcome   core.Outcome      `json:"outcome"`
	State     decisionlog.State `json:"state"`
	Message   string            `json:"message"`
	WaitsFor  string            `json:"waitsFor,omitempty"`
	Error     string            `json:"error,omitempty"`
	Begun     int               `json:"begun,omitempty"`
	Repeated  bool              `json:"repeated,omitempty"`
	MinCount  int               `json:"minCount,omitempty"`
	RetryAt   int64             `json:"retryAt,omitempty"`
	// WaitEnd is the kind of end of the preemptor's wait after this decision, and WaitEndAt its
	// time. Both are zero if the end was not recorded.
	WaitEnd   decisionlog.End   `json:"waitEnd,omitempty"`
	WaitEndAt int64             `json:"waitEndAt,omitempty"`
	Asks      []decisionlog.Ask `json:"asks,omitempty"`
	Victims   []VictimRow       `json:"victims,omitempty"`
	// LostDeviceHours is the work that is lost in all, also of gangs that fall below minCount. It
	// is 0 if that is not known.
	LostDeviceHours float64              `json:"lostDeviceHours,omitempty"`
	Placements      []PlacementRow       `json:"placements,omitempty"`
	Protected       []core.RuleCount     `json:"protected,omitempty"`
	ProtectedUnits  []core.ProtectedUnit `json:"protectedUnits,omitempty"`
	Reprieved       int                  `json:"reprieved,omitempty"`
	ReprievedUnits  []core.UnitRef       `json:"reprievedUnits,omitempty"`
	NodesOut        []core.ReasonCount   `json:"nodesOut,omitempty"`
	// Domains describes the topology domains that the decision compared, a line each.
	Domains []string `json:"domains,omitempty"`
}

// VictimRow is one victim of a decision.
type VictimRow struct {
	Workload int            `json:"w"`
	Priority *int32         `json:"priority"`
	Rule     string         `json:"rule,omitempty"`
	Since    int64          `json:"since,omitempty"`
	Pods     []PlacementRow `json:"pods"`
	// Hours are the hours that the pods had been given; nil if they are not known.
	Hours *Hours `json:"hours"`
	// LostDeviceHours is the work that the victim itself loses, since its last checkpoint.
	LostDeviceHours float64 `json:"lostDeviceHours,omitempty"`
}

// PlacementRow is a pod with its node.
type PlacementRow struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
}

// Hours are hours of GPUs and CPUs.
type Hours struct {
	GPU float64 `json:"gpu"`
	CPU float64 `json:"cpu"`
}

// Build builds a report.
func Build(in Input) *Report {
	b := newBuilder(in)
	for i := range b.entries {
		b.add(i)
	}
	b.course()
	r := &b.report
	r.Lost, r.Matrices = b.lost(), b.matrices()
	r.Turns, r.Again, r.Unused = b.turns(), b.again(), b.unused()
	b.sumQueues()
	r.Usage, r.NoUsage = b.usage(in.Usage), in.NoUsage
	if len(b.entries) > 0 {
		r.From, r.To = millis(b.entries[0].Time), millis(b.entries[len(b.entries)-1].Time)
		for i := range b.entries {
			r.To = max(r.To, millis(b.entries[i].Ended), r.Decisions[i].WaitEndAt)
		}
	}
	r.Map = in.Map
	withoutNil(reflect.ValueOf(r))
	return r
}

// millis returns a time in milliseconds since 1970; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
