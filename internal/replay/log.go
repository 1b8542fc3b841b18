package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// Log holds the lines of a decision log, which may be in several files. The zero value is an empty
// log. It is not safe for concurrent use.
type Log struct {
	records []decisionlog.Record
	inputs  []decisionlog.Inputs
	// broken is the number of skipped lines. first describes the first of them.
	broken int
	first  string
}

// FileError is the error of [Log.Read] for a file that has no line of a decision log.
type FileError struct{ reason string }

// Error describes the problem and the remedy.
func (e *FileError) Error() string { return e.reason }

// Read reads a file of the log. The files may be read in any order. Lines that are not part of a
// decision log are skipped and counted. If there are only such lines, Read returns a [*FileError].
func (l *Log) Read(name string, from io.Reader) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	known, other := 0, ""
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if bad := l.add(line); bad == nil {
				known++
			} else {
				l.pass(fmt.Sprintf("%s, line %d: %v", name, n, bad))
				if other == "" {
					other = bad.Error()
				}
			}
		}
		if err != nil {
			break
		}
	}
	switch {
	case known > 0:
		return nil
	case other == "":
		return &FileError{name + " is empty; a file of the scheduler's --decision-log is needed"}
	default:
		return &FileError{fmt.Sprintf("%s has no decision in it (the first line: %s); a file of the scheduler's --decision-log is needed", name, other)}
	}
}

// add parses a line and adds it to the log.
func (l *Log) add(line []byte) error {
	record, err := decisionlog.Parse(line)
	if errors.Is(err, decisionlog.ErrInputs) {
		inputs, err := decisionlog.ParseInputs(line)
		if err != nil {
			return err
		}
		l.inputs = append(l.inputs, inputs)
		return nil
	}
	if errors.Is(err, decisionlog.ErrWaitEnd) {
		// Ends of waits do not affect decisions.
		return nil
	}
	if err != nil {
		return err
	}
	l.records = append(l.records, record)
	return nil
}

func (l *Log) pass(why string) {
	if l.broken++; l.broken == 1 {
		l.first = why
	}
}

// Broken returns the number of skipped lines and a description of the first of them.
func (l *Log) Broken() (count int, first string) { return l.broken, l.first }

// Decisions returns the number of decisions in the log.
func (l *Log) Decisions() int { return len(l.records) }

// HasInputs reports whether the log has lines with inputs of decisions.
func (l *Log) HasInputs() bool { return len(l.inputs) > 0 }

// streams returns the lines of inputs of each process, sorted by their numbers. If two lines have
// one number, the line with the whole cluster is first.
func (l *Log) streams() map[string][]*decisionlog.Inputs {
	out := make(map[string][]*decisionlog.Inputs)
	for i := range l.inputs {
		in := &l.inputs[i]
		out[in.Process] = append(out[in.Process], in)
	}
	for _, stream := range out {
		slices.SortStableFunc(stream, func(a, b *decisionlog.Inputs) int {
			return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.From, b.From))
		})
	}
	return out
}

// inOrder returns the decisions sorted by time, without duplicates.
func (l *Log) inOrder() []*decisionlog.Record {
	out := make([]*decisionlog.Record, len(l.records))
	for i := range l.records {
		out[i] = &l.records[i]
	}
	slices.SortStableFunc(out, func(a, b *decisionlog.Record) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Sequence, b.Sequence))
	})
	return slices.CompactFunc(out, func(a, b *decisionlog.Record) bool {
		return a.Process == b.Process && a.Sequence == b.Sequence && a.Sequence != 0
	})
}

// Span returns the times of the first and of the last decision.
func (l *Log) Span() (from, to time.Time) {
	for _, r := range l.inOrder() {
		if from.IsZero() {
			from = r.Time
		}
		to = r.Time
	}
	return from, to
}
