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
	// Queued is the default number of lines that may wait to be written.
	Queued = 4096
)

// Options are the settings of a Log. With the zero value, a Log keeps the latest records in memory
// and writes nothing.
type Options struct {
	// Process names the process that decides. It is part of every record.
	Process string
	// Out receives the lines, one Write for each. Only Run writes to it. If it is nil, nothing is
	// written.
	Out io.Writer
	// Kept is the number of records in memory. Queued is the number of lines that may wait to be
	// written. 0 selects the default.
	Kept, Queued int
	// Followed is the number of workloads that are followed until their wait ends. 0 selects the
	// default.
	Followed int
	// Observer is notified about records on their way to Out. It may be nil.
	Observer Observer
}

// Observer is notified about records on their way to the file. Any goroutine may call it, also
// several at the same time.
type Observer interface {
	// Written is called for each record that was written.
	Written()
	// Dropped is called for each record that was dropped, because too many were waiting or Run had
	// ended.
	Dropped()
	// Unwritable is called for each record that could not be written.
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

// Log records decisions. Use [New] to create one. It is safe for concurrent use. No method except
// Run waits for a write.
type Log struct {
	process  string
	out      io.Writer
	observer Observer
	// lines queues the lines to write. It is nil if nothing is written.
	lines chan Line

	mu       sync.Mutex
	sequence uint64
	// latest is a ring buffer of the records in memory. When it is full, oldest is the index of the
	// oldest record.
	latest []*entry
	oldest int
	kept   int
	// waits holds the workloads whose wait has not ended. ends holds the latest ends, for as long
	// as their records are in memory.
	waits waits
	ends  []WaitEnd
	// over is true once Run ends. Nothing is written after that.
	over bool
}

// Line is a line of the log that is not a record of a decision. The goroutine of [Log.Run] writes
// lines in the order of the calls to Append.
type Line interface {
	// Encode writes the line with its newline.
	Encode(w io.Writer) error
	// Written is called after the line was written, Unwritten if it could not be written. The
	// goroutine that writes calls both.
	Written()
	Unwritten(err error)
}

// entry is a record in memory. The Log's lock guards changes of the record. It does not change
// after it is queued.
type entry struct {
	record Record
	// lost computes, once, the lost work that the record still lacks. It is nil if the record is
	// complete. The call takes time for thousands of victims, so it must not be made under the lock
	// that cycles wait for.
	lost func() []Lost
	// queued is true once the record is queued for writing.
	queued bool
}

// New returns a Log. If Out is set, the owner must call Run.
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

// Record records a decision whose result is known.
func (l *Log) Record(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue(l.keep(r))
}

// Follow records a decision whose eviction is under way. The Log calls lost when it needs the lost
// work, at most once and in another goroutine than the caller's. The caller must call ended once,
// from any goroutine, when the result is known.
func (l *Log) Follow(r Record, lost func() []Lost) (ended func(Result)) {
	r.Result = Result{State: UnderWay}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keep(r)
	e.lost = sync.OnceValue(lost)
	return func(result Result) {
		// After this call, the function lost does not keep the victims in memory any more.
		e.lost()
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.queued {
			// The process is ending, and the record has been written with the state UnderWay.
			return
		}
		result.Time = result.Time.UTC()
		e.record.Result = result
		l.queue(e)
	}
}

// keep adds a record to the latest ones and, if there are too many, drops the oldest.
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

// shown returns a decision without the fields that its JSON lacks. The members of a gang, and the
// domains of all nodes, would otherwise stay in memory.
func shown(d core.Decision) core.Decision {
	p := &d.Preemptor
	p.Classes, p.Nominated, p.Limits = nil, nil, nil
	if r := p.Domain; r != nil {
		p.Domain = &core.RequiredDomain{Key: r.Key, Homes: r.Homes}
	}
	p.Preferred = slices.Clone(p.Preferred)
	for i := range p.Preferred {
		p.Preferred[i].Of = nil
	}
	return d
}

// whole returns a record of the entry, with the lost work.
func (e *entry) whole(r Record) Record {
	if e.lost != nil {
		r.Lost = e.lost()
	}
	return r
}

// queue queues a record for writing. If too many are waiting, it drops the record.
func (l *Log) queue(e *entry) {
	e.queued = true
	l.hand(&recorded{e, l.observer})
}

// hand queues a line for writing. If too many are waiting, or Run has ended, it drops the line and
// counts it. The caller holds the lock.
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

// Append queues a line behind the earlier ones and reports whether the line will be written. It
// returns false if too many lines are waiting, or if nothing is written. It does not wait.
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

// recorded is the record of a decision as a Line.
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

// Latest returns the records in memory, the oldest first. Decisions under way are among them.
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

// Run writes records until ctx is done. Then it writes the queued records and the records of
// decisions that are still under way. It must be called only once. If nothing is written, it
// returns at once.
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

// end stops the queueing of lines and returns the lines that are not written yet.
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

// write writes one line. It reuses the buffer.
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
		// Lines with the whole cluster are rare. Do not keep a buffer of that size.
		*line = bytes.Buffer{}
	}
	if err != nil {
		next.Unwritten(err)
		return
	}
	next.Written()
}

// mostKept is the largest buffer that is kept for the next line, in bytes.
const mostKept = 1 << 20

// Encode writes a record as one line.
func Encode(w io.Writer, r *Record) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
