package report

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// Source is where decisions come from, and how much of it could be read.
type Source struct {
	Name string `json:"name"`
	// Decisions counts the lines that are decisions, and Broken those that are not: cut off, or no JSON.
	Decisions int `json:"decisions"`
	Broken    int `json:"broken"`
}

// EmptyError is the error of a file in which nothing is a decision.
type EmptyError struct {
	// First is why the first line is none; nil for an empty file.
	First error
}

// Error says what the file should be.
func (e *EmptyError) Error() string {
	if e.First == nil {
		return "is empty; a file of the scheduler's --decision-log is needed"
	}
	return fmt.Sprintf("has no decision in it (the first line: %v); a file of the scheduler's --decision-log is needed", e.First)
}

// Unwrap is the error of the first line.
func (e *EmptyError) Unwrap() error { return e.First }

// Beside is told of the lines of a decision log that are no decisions; a nil function of none.
type Beside struct {
	// Inputs is told of those with what decisions went by, and WaitEnd of those with the end of a
	// wait.
	Inputs  func(*decisionlog.Inputs)
	WaitEnd func(*decisionlog.WaitEnd)
}

// Read reads the lines of a decision log as entries, as ReadRecords does.
func Read(name string, from io.Reader, beside Beside) ([]Entry, Source, error) {
	records, source, err := ReadRecords(name, from, beside)
	entries := make([]Entry, 0, len(records))
	for i := range records {
		entries = append(entries, FromRecord(&records[i]))
	}
	return entries, source, err
}

// ReadRecords reads the lines of a decision log. Lines that are none are passed over and counted; where all are, the error is an
// EmptyError.
func ReadRecords(name string, from io.Reader, beside Beside) ([]decisionlog.Record, Source, error) {
	source := Source{Name: name}
	var records []decisionlog.Record
	var first error
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		record, bad := decisionlog.Parse(bytes.TrimSpace(line))
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case bad == nil:
			records = append(records, record)
			source.Decisions++
		case errors.Is(bad, decisionlog.ErrInputs):
			source.see(line, beside.Inputs)
			first = cmp.Or(first, bad)
		case errors.Is(bad, decisionlog.ErrWaitEnd):
			source.seeEnd(line, beside.WaitEnd)
		default:
			source.Broken++
			first = cmp.Or(first, bad)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, source, fmt.Errorf("read %s: %w", name, err)
		}
	}
	if len(records) == 0 {
		return nil, source, &EmptyError{First: first}
	}
	return records, source, nil
}

// seeEnd hands a line with the end of a wait over, where that is asked for.
func (s *Source) seeEnd(line []byte, seen func(*decisionlog.WaitEnd)) {
	if seen == nil {
		return
	}
	if end, err := decisionlog.ParseWaitEnd(line); err == nil {
		seen(&end)
	} else {
		s.Broken++
	}
}

// see hands a line with what decisions went by over, where that is asked for.
func (s *Source) see(line []byte, inputs func(*decisionlog.Inputs)) {
	if inputs == nil {
		return
	}
	if in, err := decisionlog.ParseInputs(line); err == nil {
		inputs(&in)
	} else {
		s.Broken++
	}
}
