package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// name identifies a workload across decisions. It has no UID, so a workload that is deleted and
// created again with its name counts as one workload.
type name struct {
	group          bool
	namespace, pod string
}

// builder builds a report.
type builder struct {
	entries   []Entry
	report    Report
	workloads map[name]int
	queues    map[string]int
	// ends maps a decision to the end of the wait that followed it.
	ends map[decided]decisionlog.WaitEnd
	// tells is the set of processes that record ends of waits.
	tells map[string]bool
	// now lists the workloads that wait at present. It is nil if these workloads are not known.
	now []Waiter
	// stops lists all evictions of workloads, in the order of the decisions.
	stops []stopped
}

// stopped is one eviction of one workload. The fields decision, victim and preemptor are indexes of
// the report's lists.
type stopped struct {
	decision, victim, preemptor int
	at                          time.Time
	stop                        *Stop
}

func newBuilder(in Input) *builder {
	b := &builder{
		now: in.Waiting, entries: inOrder(in.Entries), workloads: make(map[name]int), queues: make(map[string]int),
		ends: make(map[decided]decisionlog.WaitEnd, len(in.Ends)), tells: make(map[string]bool),
		report: Report{
			Schema: Schema, Sources: slices.Clone(in.Sources), Note: in.Note, Queues: []QueueRow{}, Workloads: []WorkloadRow{}, Decisions: []DecisionRow{},
		},
	}
	for _, end := range in.Ends {
		b.ends[decided{end.Process, end.Sequence}] = end
		b.tells[end.Process] = true
	}
	b.plant(in)
	return b
}

// decided identifies a decision by its process and its sequence number.
type decided struct {
	process  string
	sequence uint64
}

// plant builds the tree of queues, with parents first and siblings sorted by name. A queue that the
// cluster does not have becomes a root if a decision, a waiting workload or a sample names it.
func (b *builder) plant(in Input) {
	all := slices.Clone(in.Queues)
	names := make(map[string]bool, len(all))
	for _, q := range all {
		names[q.Name] = true
	}
	note := func(queue string) {
		if queue != "" && !names[queue] {
			names[queue] = true
			all = append(all, Queue{Name: queue})
		}
	}
	for i := range b.entries {
		note(b.entries[i].Preemptor.Queue)
		for j := range b.entries[i].Stops {
			note(b.entries[i].Stops[j].Queue)
		}
	}
	for i := range in.Waiting {
		note(in.Waiting[i].Queue)
	}
	for i := range in.Usage {
		for queue := range in.Usage[i].Queues {
			note(queue)
		}
	}
	slices.SortFunc(all, func(x, y Queue) int { return cmp.Compare(x.Name, y.Name) })
	below := make(map[string][]Queue)
	for _, q := range all {
		if !names[q.Parent] {
			q.Parent = ""
		}
		below[q.Parent] = append(below[q.Parent], q)
	}
	var grow func(parent string, at, depth int)
	grow = func(parent string, at, depth int) {
		for _, q := range below[parent] {
			b.queues[q.Name] = len(b.report.Queues)
			b.report.Queues = append(b.report.Queues, QueueRow{Name: q.Name, Parent: at, Depth: depth, Quota: q.Quota})
			grow(q.Name, b.queues[q.Name], depth+1)
		}
	}
	grow("", -1, 0)
	// A queue that is its own ancestor becomes a root.
	for _, q := range all {
		if _, ok := b.queues[q.Name]; !ok {
			b.queues[q.Name] = len(b.report.Queues)
			b.report.Queues = append(b.report.Queues, QueueRow{Name: q.Name, Parent: -1, Quota: q.Quota})
		}
	}
}

// workload returns the index of a workload in the report and adds the workload if necessary. Its
// priority and queue come from the last decision that has them.
func (b *builder) workload(p *Party) int {
	key := name{p.Group, p.Namespace, p.Name}
	at, ok := b.workloads[key]
	if !ok {
		at = len(b.report.Workloads)
		b.workloads[key] = at
		b.report.Workloads = append(b.report.Workloads, WorkloadRow{Namespace: p.Namespace, Name: p.Name, Group: p.Group, Queue: -1})
	}
	w := &b.report.Workloads[at]
	if p.Priority != nil {
		w.Priority = p.Priority
	}
	if p.Queue != "" {
		w.Queue = b.queues[p.Queue]
	}
	return at
}

// add adds the decision with the index i.
func (b *builder) add(i int) {
	e := &b.entries[i]
	at := b.workload(&e.Preemptor)
	row := DecisionRow{
		ID: e.ID, At: millis(e.Time), Ended: millis(e.Ended), Preemptor: at, Priority: e.Preemptor.Priority, Outcome: e.Outcome, State: e.State,
		Message: e.Message, WaitsFor: e.WaitsFor, Error: e.Error, Begun: e.Begun, Repeated: e.Repeated, MinCount: e.MinCount,
		LostDeviceHours: e.LostDeviceHours,
		RetryAt:         e.RetryAt / int64(time.Millisecond), Asks: e.Asks, Protected: e.Protected, ProtectedUnits: e.ProtectedUnits,
		Reprieved: e.Reprieved, ReprievedUnits: e.ReprievedUnits, NodesOut: e.NodesOut,
		Domains: e.Domains,
	}
	if end, ok := b.ends[decided{e.Process, e.Sequence}]; ok {
		row.WaitEnd, row.WaitEndAt = end.End, millis(end.Time)
	}
	for _, p := range e.Placements {
		row.Placements = append(row.Placements, PlacementRow{Pod: p.Member, Node: p.Node})
	}
	for j := range e.Stops {
		row.Victims = append(row.Victims, b.victim(i, j, at))
	}
	b.report.Decisions = append(b.report.Decisions, row)
	b.report.Totals.Decisions++
	if e.Happened() {
		b.report.Totals.Preemptions++
	}
}

// victim returns the row for the victim Stops[j] of the entry i. If the decision was carried out,
// the victim also counts in the totals.
func (b *builder) victim(i, j, preemptor int) VictimRow {
	e, s := &b.entries[i], &b.entries[i].Stops[j]
	v := VictimRow{Workload: b.workload(&s.Party), Priority: s.Priority, Rule: s.Rule, Since: millis(s.Since), Pods: []PlacementRow{}, LostDeviceHours: s.LostDeviceHours}
	if s.Measured {
		v.Hours = &Hours{GPU: s.GPUHours, CPU: s.CPUHours}
	}
	for _, pod := range s.Pods {
		v.Pods = append(v.Pods, PlacementRow{Pod: pod.Name, Node: pod.Node})
	}
	if e.Happened() {
		b.stops = append(b.stops, stopped{decision: i, victim: v.Workload, preemptor: preemptor, at: e.Time, stop: s})
		b.report.Workloads[v.Workload].Stopped++
		b.report.Workloads[preemptor].Took++
		b.report.Totals.add(s)
	}
	return v
}
