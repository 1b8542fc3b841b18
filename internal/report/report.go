package report

import (
	"reflect"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// Schema is the version of a Report's JSON.
const Schema = "reprieve.dev/report/v1"

// Input is the data for building a report.
type Input struct {
	Entries []Entry
	// Ends has the ends of waits, in any order. It may contain duplicates.
	Ends    []decisionlog.WaitEnd
	Sources []Source
	// Queues has the queues of the cluster, if they are known. The report adds other queues that
	// decisions name.
	Queues []Queue
	// Usage is the usage of queues over time.
	Usage []Sample
	// NoUsage is the reason why the usage is unknown. It is empty if the usage is known.
	NoUsage string
	// Note describes the data that the entries lack. It is empty if the entries come from complete
	// records.
	Note string
	// Waiting has the workloads that wait at present, in the order of their turns. If it is nil,
	// the report determines them from the entries.
	Waiting []Waiter
	// Map shows the workloads that use GPUs. It is nil if they are unknown.
	Map *Map
}

// Waiter is a workload that waits at present.
type Waiter struct {
	Party
	Since time.Time
	// Reserved is true if room is reserved for the workload.
	Reserved bool
	// Reason is the reason for the wait as one word, and Cause is the reason as a sentence.
	Reason, Cause string
}

// Queue is one queue of the cluster.
type Queue struct {
	Name, Parent string
	// Quota maps a resource to the queue's quota, as a formatted quantity such as "512Gi".
	Quota map[string]string
}

// Report is the data that the page displays. All lists refer to a workload, queue or decision by
// its index in Workloads, Queues or Decisions; -1 means none. Times are in milliseconds since 1970.
type Report struct {
	Schema  string     `json:"schema"`
	Sources []Source   `json:"sources"`
	Note    string     `json:"note,omitempty"`
	From    int64      `json:"from"`
	To      int64      `json:"to"`
	Totals  Totals     `json:"totals"`
	Queues  []QueueRow `json:"queues"`
	// Usage is the usage of queues over time, one entry for each resource. NoUsage is the reason
	// why it is unknown.
	Usage     []Usage       `json:"usage"`
	NoUsage   string        `json:"noUsage,omitempty"`
	Workloads []WorkloadRow `json:"workloads"`
	Decisions []DecisionRow `json:"decisions"`
	// Waiting has the workloads that wait at the end. They are in the order of Input.Waiting, or
	// sorted by waiting time with the longest first.
	Waiting []WaitingRow `json:"waiting"`
	// Map shows the workloads that use GPUs. It is nil if they are unknown.
	Map  *Map `json:"map,omitempty"`
	Lost Lost `json:"lost"`
	// Matrices has the losses by preemptor and victim: one matrix for queues, one for namespaces
	// and one for priorities.
	Matrices []Matrix `json:"matrices"`
	Turns    []Turns  `json:"turns"`
	Again    []Again  `json:"again"`
	Unused   []Unused `json:"unused"`
}

// Totals has the sums over the whole report.
type Totals struct {
	Decisions   int `json:"decisions"`
	Preemptions int `json:"preemptions"`
	// Waiting is the number of workloads that wait at the end. Reserved is the number of these
	// workloads that have reserved room.
	Waiting  int `json:"waiting"`
	Reserved int `json:"reserved"`
	Loss
}

// QueueRow is one queue. The rows are in the order of the queue tree, parents first.
type QueueRow struct {
	Name   string            `json:"name"`
	Parent int               `json:"parent"`
	Depth  int               `json:"depth"`
	Quota  map[string]string `json:"quota,omitempty"`
	// Took is the work that the queue's workloads evicted. Lost is the work that they lost by
	// evictions. Both sums include the queues below this queue.
	Took Loss `json:"took"`
	Lost Loss `json:"lost"`
}

// WorkloadRow is one workload. If a workload is deleted and created again with its name, it has one
// row.
type WorkloadRow struct {
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	Group     bool   `json:"group,omitempty"`
	Queue     int    `json:"queue"`
	Priority  *int32 `json:"priority"`
	// Stopped is the number of times that this workload was evicted. Took is the number of times
	// that another workload was evicted for this one.
	Stopped int    `json:"stopped,omitempty"`
	Took    int    `json:"took,omitempty"`
	Spans   []Span `json:"spans,omitempty"`
}

// These are the kinds of spans.
const (
	// SpanWaits means that the workload waits for room.
	SpanWaits = "waits"
	// SpanReserved means that the workload waits until its reserved room is free.
	SpanReserved = "reserved"
	// SpanRuns means that the workload has room.
	SpanRuns = "runs"
)

// Span is a period when a workload waits or runs, as far as the decisions show.
type Span struct {
	Kind string `json:"kind"`
	From int64  `json:"from"`
	// To is the end of the span. It is 0 if the decisions do not show the end.
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
	// WaitEnd says how the preemptor's wait ended after this decision. WaitEndAt is the time of
	// that end. Both are zero if no end was recorded.
	WaitEnd   decisionlog.End   `json:"waitEnd,omitempty"`
	WaitEndAt int64             `json:"waitEndAt,omitempty"`
	Asks      []decisionlog.Ask `json:"asks,omitempty"`
	Victims   []VictimRow       `json:"victims,omitempty"`
	// LostDeviceHours is the work that is lost in total, including the work of gangs that fall
	// below minCount. It is 0 if it is unknown.
	LostDeviceHours float64              `json:"lostDeviceHours,omitempty"`
	Placements      []PlacementRow       `json:"placements,omitempty"`
	Protected       []core.RuleCount     `json:"protected,omitempty"`
	ProtectedUnits  []core.ProtectedUnit `json:"protectedUnits,omitempty"`
	Reprieved       int                  `json:"reprieved,omitempty"`
	ReprievedUnits  []core.UnitRef       `json:"reprievedUnits,omitempty"`
	NodesOut        []core.ReasonCount   `json:"nodesOut,omitempty"`
	// Domains describes the compared topology domains, one per line.
	Domains []string `json:"domains,omitempty"`
}

// VictimRow is one victim of a decision.
type VictimRow struct {
	Workload int            `json:"w"`
	Priority *int32         `json:"priority"`
	Rule     string         `json:"rule,omitempty"`
	Since    int64          `json:"since,omitempty"`
	Pods     []PlacementRow `json:"pods"`
	// Hours are the resources that the pods had used since their start. It is nil if that is
	// unknown.
	Hours *Hours `json:"hours"`
	// LostDeviceHours is the work that the victim loses since its last checkpoint.
	LostDeviceHours float64 `json:"lostDeviceHours,omitempty"`
}

// PlacementRow is a pod and its node.
type PlacementRow struct {
	Pod  string `json:"pod"`
	Node string `json:"node,omitempty"`
}

// Hours are amounts in hours of one GPU and of one CPU.
type Hours struct {
	GPU float64 `json:"gpu"`
	CPU float64 `json:"cpu"`
}

// Build builds a report from its input.
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

// millis returns a time in milliseconds since 1970. It returns 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
