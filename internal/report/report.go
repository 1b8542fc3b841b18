package report

import (
	"reflect"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// Schema is the version of a Report's JSON.
const Schema = "reprieve.dev/report/v1"

// Input is what a report is made of.
type Input struct {
	Entries []Entry
	// Ends say how the waits of workloads ended, in any order, each once or more.
	Ends    []decisionlog.WaitEnd
	Sources []Source
	// Queues are the queues of the cluster, where they are known. Others that decisions name stand beside them.
	Queues []Queue
	// Usage is how queues stood over time, and NoUsage why that is not known; empty where it is.
	Usage   []Sample
	NoUsage string
	// Note says what the entries cannot tell; empty where they are whole records.
	Note string
	// Waiting are the workloads that wait, in the order of their turns, where the cluster tells;
	// nil where the entries are to.
	Waiting []Waiter
	// Map says which workload has which GPUs; nil where that is not known.
	Map *Map
}

// Waiter is a workload that waits now.
type Waiter struct {
	Party
	Since time.Time
	// Reserved is true where room is reserved for it. Reason says in one word why it waits, and
	// Cause in a sentence.
	Reserved      bool
	Reason, Cause string
}

// Queue is one queue of the cluster.
type Queue struct {
	Name, Parent string
	// Quota is its quota, as people write it, by resource.
	Quota map[string]string
}

// Report is all that the page draws. Workloads, queues and decisions are referred to by their place in the lists; -1 is none. Times
// are milliseconds since 1970.
type Report struct {
	Schema  string     `json:"schema"`
	Sources []Source   `json:"sources"`
	Note    string     `json:"note,omitempty"`
	From    int64      `json:"from"`
	To      int64      `json:"to"`
	Totals  Totals     `json:"totals"`
	Queues  []QueueRow `json:"queues"`
	// Usage is what queues used over time, by resource; NoUsage is why that is not known.
	Usage     []Usage       `json:"usage"`
	NoUsage   string        `json:"noUsage,omitempty"`
	Workloads []WorkloadRow `json:"workloads"`
	Decisions []DecisionRow `json:"decisions"`
	// Waiting are the workloads that wait at the end, the longest first.
	Waiting []WaitingRow `json:"waiting"`
	// Map is who has the GPUs; nil where that is not known.
	Map  *Map `json:"map,omitempty"`
	Lost Lost `json:"lost"`
	// Matrices say who took from whom, by queue, by namespace and by priority.
	Matrices []Matrix `json:"matrices"`
	Turns    []Turns  `json:"turns"`
	Again    []Again  `json:"again"`
	Unused   []Unused `json:"unused"`
}

// Totals are the numbers of the whole report.
type Totals struct {
	Decisions   int `json:"decisions"`
	Preemptions int `json:"preemptions"`
	// Waiting counts the workloads that wait at the end, and Reserved those among them for which
	// room is reserved.
	Waiting  int `json:"waiting"`
	Reserved int `json:"reserved"`
	Loss
}

// QueueRow is one queue. They stand in the order of the tree, parents first.
type QueueRow struct {
	Name   string            `json:"name"`
	Parent int               `json:"parent"`
	Depth  int               `json:"depth"`
	Quota  map[string]string `json:"quota,omitempty"`
	// Took and Lost are what its work has taken from others and what it has lost itself, with all below it.
	Took Loss `json:"took"`
	Lost Loss `json:"lost"`
}

// WorkloadRow is one workload, by name: one that comes back under its name is the same.
type WorkloadRow struct {
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	Group     bool   `json:"group,omitempty"`
	Queue     int    `json:"queue"`
	Priority  *int32 `json:"priority"`
	// Stopped is how often it was stopped, and Took how many it has stopped.
	Stopped int    `json:"stopped,omitempty"`
	Took    int    `json:"took,omitempty"`
	Spans   []Span `json:"spans,omitempty"`
}

// Kinds of spans.
const (
	// SpanWaits: it waits for room.
	SpanWaits = "waits"
	// SpanReserved: room is reserved for it, and it waits until that is free.
	SpanReserved = "reserved"
	// SpanRuns: it has room.
	SpanRuns = "runs"
)

// Span is a time in which a workload waits or runs, as far as the decisions tell.
type Span struct {
	Kind string `json:"kind"`
	From int64  `json:"from"`
	// To is 0 where the decisions do not tell when it ended.
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
	// WaitEnd is how the wait of the preemptor ended after this decision, and WaitEndAt when; empty
	// where the record does not tell.
	WaitEnd        decisionlog.End      `json:"waitEnd,omitempty"`
	WaitEndAt      int64                `json:"waitEndAt,omitempty"`
	Asks           []decisionlog.Ask    `json:"asks,omitempty"`
	Victims        []VictimRow          `json:"victims,omitempty"`
	Placements     []PlacementRow       `json:"placements,omitempty"`
	Protected      []core.RuleCount     `json:"protected,omitempty"`
	ProtectedUnits []core.ProtectedUnit `json:"protectedUnits,omitempty"`
	Reprieved      int                  `json:"reprieved,omitempty"`
	ReprievedUnits []core.UnitRef       `json:"reprievedUnits,omitempty"`
	NodesOut       []core.ReasonCount   `json:"nodesOut,omitempty"`
}

// VictimRow is one victim of a decision.
type VictimRow struct {
	Workload int            `json:"w"`
	Priority *int32         `json:"priority"`
	Rule     string         `json:"rule,omitempty"`
	Since    int64          `json:"since,omitempty"`
	Pods     []PlacementRow `json:"pods"`
	// Hours is nil where it is not known what is lost.
	Hours *Hours `json:"hours"`
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

// Build makes the report of some decisions.
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

// millis is 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
