package decisionlog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"github.com/reprieve-dev/reprieve/internal/core"
)

const (
	// Kept is the default number of records that a Log keeps in memory.
	Kept = 1000
	// Queued is the default number of lines that may wait for the goroutine that writes them.
	Queued = 4096
)

// Options are the settings of a Log. The zero value selects a Log that keeps the latest records in
// memory and writes nothing.
type Options struct {
	// Process names the scheduler process. It is part of every record.
	Process string
	// Out receives the lines, one per Write. Only Run writes to it. A nil Out means that nothing is
	// written.
	Out io.Writer
	// Kept is the number of records in memory. Queued is the number of lines that may wait to be
	// written. 0 selects the default for each.
	Kept, Queued int
	// Followed is the number of workloads that the Log follows until their wait ends. 0 selects the
	// default.
	Followed int
	// Observer is notified of the fate of each record: written, dropped or failed. It may be nil.
	Observer Observer
}

// Observer is notified of the fate of each record. Its methods must be safe for concurrent use.
type Observer interface {
	// Written is called after a record was written.
	Written()
	// Dropped is called after a record was dropped, because the queue was full or Run had ended.
	Dropped()
	// Unwritable is called after the write of a record failed.
	Unwritable(err error)
}

// unobserved is an Observer that does nothing.
type unobserved struct{}

// Written implements Observer.
func (unobserved) Written() {}

// Dropped implements Observer.
func (unobserved) Dropped() {}

// Unwritable implements Observer.
func (unobserved) Unwritable(error) {}

// Log records decisions. Use [New] to create one. It is safe for concurrent use. Only Run waits for
// writes.
type Log struct {
	process  string
	out      io.Writer
	observer Observer
	// lines queues the lines for Run. It is nil if nothing is written.
	lines chan Line

	mu       sync.Mutex
	sequence uint64
	// latest is a ring buffer of the records in memory. When it is full, oldest is the index of its
	// oldest record.
	latest []*entry
	oldest int
	kept   int
	// waits holds the workloads whose wait has not ended.
	waits waits
	// ends holds the latest ends of waits, each for as long as its record is in memory.
	ends []WaitEnd
	// over is true once Run ends. Later lines are dropped.
	over bool
}

// Line is a line of the log other than the record of a decision. The goroutine of [Log.Run] writes
// lines in the order of the calls to Append.
type Line interface {
	// Encode writes the line with its newline.
	Encode(w io.Writer) error
	// Written is called after the line was written, in the goroutine of Run.
	Written()
	// Unwritten is called if the line could not be written, in the goroutine of Run.
	Unwritten(err error)
}

// entry is a record in memory. The Log's lock guards its fields. The record does not change after
// it is queued.
type entry struct {
	record Record
	// lost computes the lost work of the victims, which the record lacks so far. It is nil if the
	// record is complete. The computation takes long for thousands of victims. So call it without
	// the Log's lock, because scheduling cycles wait for that lock.
	lost   func() []Lost
	queued bool
}

// New returns a Log. If Options.Out is set, the caller must call Run.
func New(o Options) *Log {
	l := &Log{process: o.Process, out: o.Out, observer: o.Observer, kept: cmp.Or(o.Kept, Kept), waits: waits{most: cmp.Or(o.Followed, Followed)}}
	if l.observer == nil {
		l.observer = unobserved{}
	}
	if l.out != nil {
		l.lines = make(chan Line, cmp.Or(o.Queued, Queued))
	}
	return l
}

// Record records a decision whose result is already known. For a decision whose eviction is under
// way, use [Log.Follow].
func (l *Log) Record(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue(l.keep(r))
}

// Follow records a decision whose eviction is under way. It returns a function that the caller must
// call once, from any goroutine, when the result is known.
//
// The Log calls lost at most once, in any goroutine: when a reader asks for the record, when Run
// ends, or when the result is known.
func (l *Log) Follow(r Record, lost func() []Lost) (ended func(Result)) {
	r.Result = Result{State: UnderWay}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keep(r)
	e.lost = sync.OnceValue(lost)
	return func(result Result) {
		// Compute the lost work now. Afterwards, the closure lost no longer keeps the victims in
		// memory.
		e.lost()
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.queued {
			// The process is ending, and Run has already written the record with the state
			// UnderWay.
			return
		}
		result.Time = result.Time.UTC()
		e.record.Result = result
		l.queue(e)
	}
}

// keep adds a record to latest. If latest is full, the record replaces the oldest one.
func (l *Log) keep(r Record) *entry {
	l.sequence++
	r.Schema, r.Process, r.Sequence, r.Time = Schema, l.process, l.sequence, r.Time.UTC()
	r.Decision = shown(r.Decision)
	e := &entry{record: r}
	if len(l.latest) < l.kept {
		l.latest = append(l.latest, e)
	} else {
		l.latest[l.oldest] = e
		l.oldest = (l.oldest + 1) % l.kept
	}
	l.waits.begin(&e.record)
	return e
}

// shown returns a copy of a decision without the fields that its JSON omits. With these fields, the
// Log would keep a gang's members and the domains of all nodes in memory.
func shown(d core.Decision) core.Decision {
	p := &d.Preemptor
	p.Classes, p.Nominated, p.Limits = nil, nil, nil
	if r := p.Domain; r != nil {
		p.Domain = &core.TopologyLevel{Key: r.Key, Homes: r.Homes}
	}
	p.Preferred = slices.Clone(p.Preferred)
	for i := range p.Preferred {
		p.Preferred[i].Of = nil
	}
	return d
}

// whole returns r with the entry's lost work. r is a copy of the entry's record.
func (e *entry) whole(r Record) Record {
	if e.lost != nil {
		r.Lost = e.lost()
	}
	return r
}

// queue queues the record of an entry for writing. If the queue is full, it drops the record.
func (l *Log) queue(e *entry) {
	e.queued = true
	l.hand(&recorded{e, l.observer})
}

// hand queues a line for writing. If the queue is full or Run has ended, it drops the line and
// counts it as dropped. The caller must hold the lock.
func (l *Log) hand(line Line) {
	if l.lines == nil {
		return
	}
	if l.over {
		l.observer.Dropped()
		return
	}
	select {
	case l.lines <- line:
	default:
		l.observer.Dropped()
	}
}

// Append queues a line and reports whether the line will be written. It returns false if the queue
// is full, Run has ended or the Log writes nothing. It never waits.
func (l *Log) Append(line Line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil || l.over {
		return false
	}
	select {
	case l.lines <- line:
		return true
	default:
		return false
	}
}

// recorded implements Line for the record of a decision.
type recorded struct {
	*entry
	observer Observer
}

// Encode implements Line.
func (r *recorded) Encode(w io.Writer) error {
	whole := r.whole(r.record)
	return Encode(w, &whole)
}

// Written implements Line.
func (r *recorded) Written() { r.observer.Written() }

// Unwritten implements Line.
func (r *recorded) Unwritten(err error) { r.observer.Unwritable(err) }

// Latest returns the records in memory, the oldest first, including decisions under way.
func (l *Log) Latest() []Record {
	l.mu.Lock()
	out, entries := make([]Record, 0, len(l.latest)), make([]*entry, 0, len(l.latest))
	for i := range l.latest {
		e := l.latest[(l.oldest+i)%len(l.latest)]
		out, entries = append(out, e.record), append(entries, e)
	}
	l.mu.Unlock()
	for i, e := range entries {
		out[i] = e.whole(out[i])
	}
	return out
}

// Run writes records until ctx is done. It then writes the queued records, and the records of
// decisions that are still under way. If the Log writes nothing, Run returns at once. Call it only
// once.
func (l *Log) Run(ctx context.Context) {
	if l.lines == nil {
		return
	}
	var line bytes.Buffer
	for {
		select {
		case next := <-l.lines:
			l.write(&line, next)
		case <-ctx.Done():
			for _, next := range l.end() {
				l.write(&line, next)
			}
			return
		}
	}
}

// end stops the queueing of lines and returns the lines that are not written yet, including the
// decisions under way.
func (l *Log) end() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	var left []Line
	for len(l.lines) > 0 {
		left = append(left, <-l.lines)
	}
	for i := range l.latest {
		if e := l.latest[(l.oldest+i)%len(l.latest)]; !e.queued {
			e.queued = true
			left = append(left, &recorded{e, l.observer})
		}
	}
	return left
}

// write writes one line. line is a buffer that each call reuses.
func (l *Log) write(line *bytes.Buffer, next Line) {
	line.Reset()
	if err := next.Encode(line); err != nil {
		next.Unwritten(err)
		return
	}
	if line.Len() == 0 {
		return
	}
	_, err := l.out.Write(line.Bytes())
	if line.Cap() > mostKept {
		// Lines with the whole cluster are rare, so do not keep a buffer of their size.
		*line = bytes.Buffer{}
	}
	if err != nil {
		next.Unwritten(err)
		return
	}
	next.Written()
}

// mostKept is the maximum size in bytes of a buffer that write reuses.
const mostKept = 1 << 20

// Encode writes a record as one line of JSON.
func Encode(w io.Writer, r *Record) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
