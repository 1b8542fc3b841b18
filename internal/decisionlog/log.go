package decisionlog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/reprieve-dev/reprieve/internal/core"
)

const (
	// Kept is how many records a Log keeps in memory where its options do not say.
	Kept = 1000
	// Queued is how many records may wait to be written where the options of a Log do not say.
	Queued = 4096
)

// Options say how a Log records. The zero value is for one that keeps the latest records and writes none.
type Options struct {
	// Process is who decides, in every record.
	Process string
	// Out is where lines go, one write for each; nil for nowhere. Only Run writes to it.
	Out io.Writer
	// Kept is how many records are kept in memory, and Queued how many may wait to be written; 0 for the defaults.
	Kept, Queued int
	// Followed is how many workloads are followed until their wait ends; 0 for the default.
	Followed int
	// Observer is told what becomes of records on their way to Out; nil for nothing that is.
	Observer Observer
}

// Observer is told what becomes of records on their way to where they are written. It is called by any goroutine, several at
// a time.
type Observer interface {
	// Written is called for a record that has been written.
	Written()
	// Dropped is called for a record that was left out, because too many waited to be written.
	Dropped()
	// Unwritable is called for a record that could not be written.
	Unwritable(err error)
}

// unobserved tells nothing.
type unobserved struct{}

// Written is part of Observer.
func (unobserved) Written() {}

// Dropped is part of Observer.
func (unobserved) Dropped() {}

// Unwritable is part of Observer.
func (unobserved) Unwritable(error) {}

// Log keeps a record of decisions. Make one with [New]. It is safe for concurrent use, and none of its methods but Run waits
// for anything to be written.
type Log struct {
	process  string
	out      io.Writer
	observer Observer
	// lines are those that wait to be written; nil where none are.
	lines chan Line

	mu       sync.Mutex
	sequence uint64
	// latest are the records in memory, as a ring: the oldest is at oldest once it is full.
	latest []*entry
	oldest int
	kept   int
	// waits are the workloads whose wait has not ended, and ends the latest ends, in memory like
	// the records.
	waits waits
	ends  []WaitEnd
	// over is true when Run has ended, and nothing is written any more.
	over bool
}

// Line is a line beside the records of decisions. It is written by the goroutine of [Log.Run], in the order in which it was
// appended.
type Line interface {
	// Encode writes the line, with its end.
	Encode(w io.Writer) error
	// Written is called for a line that has been written, and Unwritten for one that has not, in the same goroutine.
	Written()
	Unwritten(err error)
}

// entry is a record in memory. Its record is changed under the Log's lock, and not any more once it is queued.
type entry struct {
	record Record
	// lost works out, once, what the record lacks of what is lost; nil where it lacks nothing. For thousands of victims that takes a
	// while, so it is asked without the lock, for which cycles wait.
	lost func() []Lost
	// queued is true once it has been handed over to be written.
	queued bool
}

// New makes a Log. Where Out is set, its owner has Run write.
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

// Record takes note of a decision of which it is known what becomes of it.
func (l *Log) Record(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue(l.keep(r))
}

// Follow takes note of a decision that is being carried out. What is lost with its victims is asked for when it is needed: at most once,
// by another goroutine than the caller's. The caller calls ended once, from any goroutine, when it is known what became of it.
func (l *Log) Follow(r Record, lost func() []Lost) (ended func(Result)) {
	r.Result = Result{State: UnderWay}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keep(r)
	e.lost = sync.OnceValue(lost)
	return func(result Result) {
		// From here on, the pods that were taken are not kept for it.
		e.lost()
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.queued {
			// The process is ending, and has written that it is under way.
			return
		}
		result.Time = result.Time.UTC()
		e.record.Result = result
		l.queue(e)
	}
}

// keep has a record among the latest, in place of the oldest.
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

// shown is a decision without what its JSON leaves out: the members of a gang, which would be kept in memory with it.
func shown(d core.Decision) core.Decision {
	d.Preemptor.Classes, d.Preemptor.Nominated, d.Preemptor.Limits = nil, nil, nil
	return d
}

// whole is a record of the entry with what is lost.
func (e *entry) whole(r Record) Record {
	if e.lost != nil {
		r.Lost = e.lost()
	}
	return r
}

// queue hands a record over to be written, unless too many wait.
func (l *Log) queue(e *entry) {
	e.queued = true
	l.hand(&recorded{e, l.observer})
}

// hand hands a line of the record over to be written, and counts it as dropped where too many wait.
// It is called under the lock.
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

// Append has another line written, after those that have been handed over before, and reports whether it is going to be: it is
// not where too many wait, or none are written. It does not wait.
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

// recorded is the record of a decision as a line.
type recorded struct {
	*entry
	observer Observer
}

// Encode is part of Line.
func (r *recorded) Encode(w io.Writer) error {
	whole := r.whole(r.record)
	return Encode(w, &whole)
}

// Written is part of Line.
func (r *recorded) Written() { r.observer.Written() }

// Unwritten is part of Line.
func (r *recorded) Unwritten(err error) { r.observer.Unwritable(err) }

// Latest are the records in memory, the oldest first, those of decisions that are being carried out among them.
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

// Run writes records until ctx is done, and then those that wait, and those of decisions that are being carried out. It is
// called once. Where nothing is written it returns at once.
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

// end has no more lines queued, and returns those that have not been written.
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

// write writes one line, in memory that is used again.
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
		// A whole cluster is written seldom.
		*line = bytes.Buffer{}
	}
	if err != nil {
		next.Unwritten(err)
		return
	}
	next.Written()
}

// mostKept is how many bytes of memory are kept to be used again for the next line.
const mostKept = 1 << 20

// Encode writes a record as one line.
func Encode(w io.Writer, r *Record) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
