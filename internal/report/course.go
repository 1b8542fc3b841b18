package report

import (
	"cmp"
	"slices"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// course determines when each workload waited and when it had room, and which workloads wait at the
// end. It processes the decisions and the ends of waits in the order of time.
func (b *builder) course() {
	n := len(b.report.Workloads)
	c := &course{builder: b, at: make([]Span, n), last: make([]int, n), since: make([]int64, n)}
	for i := range c.last {
		c.last[i] = -1
	}
	for _, s := range b.inTurn() {
		if s.ends {
			c.ended(s.decision, s.at)
			continue
		}
		c.decided(s.decision)
	}
	for w, s := range c.at {
		if s.Kind != "" {
			b.report.Workloads[w].Spans = append(b.report.Workloads[w].Spans, s)
		}
		if s.waits() && b.now == nil {
			b.waits(w, c.last[w], s.Kind == SpanReserved, c.since[w])
		}
	}
	slices.SortStableFunc(b.report.Waiting, func(x, y WaitingRow) int { return cmp.Compare(x.Since, y.Since) })
	for i := range b.now {
		b.waitsNow(&b.now[i])
	}
}

// waitsNow adds a workload that waits at present according to the cluster.
func (b *builder) waitsNow(w *Waiter) {
	b.report.Totals.Waiting++
	if w.Reserved {
		b.report.Totals.Reserved++
	}
	b.report.Waiting = append(b.report.Waiting, WaitingRow{
		Workload: b.workload(&w.Party), Since: millis(w.Since), Reserved: w.Reserved, Reason: w.Reason, Cause: w.Cause, Decision: -1,
	})
}

// step is an event: a decision, or the end of the wait that followed the decision (ends is true).
type step struct {
	at       int64
	decision int
	ends     bool
}

// inTurn returns the decisions and the ends of waits, sorted by time.
func (b *builder) inTurn() []step {
	out := make([]step, 0, len(b.entries)+len(b.ends))
	for i := range b.report.Decisions {
		row := &b.report.Decisions[i]
		out = append(out, step{at: row.At, decision: i})
		if row.WaitEnd != "" {
			out = append(out, step{at: max(row.WaitEndAt, row.At), decision: i, ends: true})
		}
	}
	slices.SortStableFunc(out, func(x, y step) int { return cmp.Compare(x.at, y.at) })
	return out
}

// course is the state of all workloads. Its lists are indexed by workload. The field at has the
// current span of each workload. The field last has the index of the last decision about it, and
// since has the time when its wait began.
type course struct {
	*builder
	at    []Span
	last  []int
	since []int64
}

// waits reports whether the workload waits during the span, with or without a reservation.
func (s *Span) waits() bool { return s.Kind == SpanWaits || s.Kind == SpanReserved }

// begin ends the current span of the workload w and starts a new span at the given time. If kind is
// empty, it starts no new span. If the workload waits already and kind is the kind of its current
// span, the span continues.
//
// A span never starts before the previous one. The given time may be earlier than the start of the
// current span. For example, a victim has started before its recorded wait, or clocks differ.
func (c *course) begin(w int, kind string, at int64) {
	if c.at[w].Kind == kind && kind != SpanRuns {
		return
	}
	at = max(at, c.at[w].From)
	if c.at[w].Kind != "" {
		c.at[w].To = at
		c.report.Workloads[w].Spans = append(c.report.Workloads[w].Spans, c.at[w])
	}
	was := c.at[w].waits()
	c.at[w] = Span{Kind: kind, From: at}
	if !was {
		c.since[w] = at
	}
}

// ended ends the wait of the preemptor of decision i, unless there is a later decision about that
// workload.
func (c *course) ended(i int, at int64) {
	row := &c.report.Decisions[i]
	w := row.Preemptor
	if c.last[w] != i {
		return
	}
	if row.WaitEnd == decisionlog.Bound {
		c.begin(w, SpanRuns, at)
		return
	}
	c.begin(w, "", at)
}

// decided applies the decision i to the spans of its preemptor and its victims.
func (c *course) decided(i int) {
	e, row := &c.entries[i], &c.report.Decisions[i]
	c.last[row.Preemptor] = i
	switch happened := e.Happened(); {
	case happened && !c.tells[e.Process]:
		// This process does not record the ends of waits. Assume that the preemptor runs from now
		// on.
		c.begin(row.Preemptor, SpanRuns, row.At)
	case happened, e.Outcome == core.Waits, e.Outcome == core.Fits:
		c.begin(row.Preemptor, SpanReserved, row.At)
	default:
		c.begin(row.Preemptor, SpanWaits, row.At)
	}
	if !e.Happened() {
		return
	}
	for _, v := range row.Victims {
		// An earlier eviction ended the victim's span, although it may have evicted only some
		// members. Add a span for the other members, which ran until now.
		if c.at[v.Workload].Kind != SpanRuns && v.Since > 0 {
			c.begin(v.Workload, SpanRuns, min(v.Since, row.At))
		}
		c.begin(v.Workload, "", row.At)
	}
}

// WaitingRow is a workload that waits at the end of the report.
type WaitingRow struct {
	Workload int   `json:"w"`
	Since    int64 `json:"since"`
	// Reserved is true if the workload waits for room that is reserved for it.
	Reserved bool `json:"reserved,omitempty"`
	// Cause is the reason for the wait as a sentence.
	Cause string `json:"cause"`
	// Reason is the reason for the wait as one word.
	Reason string `json:"reason"`
	// Decision is the index of the last decision about the workload, or -1.
	Decision int `json:"decision"`
}

// waits adds a workload that waits after the last decision about it.
func (b *builder) waits(w, decision int, reserved bool, since int64) {
	b.report.Totals.Waiting++
	row := WaitingRow{Workload: w, Since: since, Reserved: reserved, Decision: decision}
	if row.Reserved {
		b.report.Totals.Reserved++
	}
	if decision >= 0 {
		d := &b.report.Decisions[decision]
		row.Cause, row.Reason = d.Message, string(d.Outcome)
		if d.WaitsFor != "" {
			row.Cause = d.Message + "; " + d.WaitsFor
		}
	}
	b.report.Waiting = append(b.report.Waiting, row)
}
