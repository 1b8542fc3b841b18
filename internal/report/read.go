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

// Source is a file or another origin of decisions, with statistics.
type Source struct {
	Name string `json:"name"`
	// Decisions is the number of lines with a decision. Broken is the number of invalid lines: they
	// are cut off, or not JSON of a known schema.
	Decisions int `json:"decisions"`
	Broken    int `json:"broken"`
}

// EmptyError is the error for a file without decisions.
type EmptyError struct {
	// First is the error of the first line that is not a line of a decision log. It is nil if there
	// is no such line.
	First error
	// Beside is the number of lines with inputs or ends of waits.
	Beside int
}

// Error says that there are no decisions and names the file that is needed.
func (e *EmptyError) Error() string {
	const remedy = "; a file of the scheduler's --decision-log is needed"
	switch {
	case e.First != nil:
		return fmt.Sprintf("has no decision in it (the first line: %v)", e.First) + remedy
	case e.Beside > 0:
		return "has no decision in it, only inputs of decisions or ends of waits" + remedy
	default:
		return "is empty" + remedy
	}
}

// Unwrap returns First.
func (e *EmptyError) Unwrap() error { return e.First }

// Beside has callbacks for lines of a decision log that are not decisions. If a callback is nil,
// its lines are skipped.
type Beside struct {
	// Inputs is called for each line with inputs of decisions.
	Inputs func(*decisionlog.Inputs)
	// WaitEnd is called for each line with the end of a wait.
	WaitEnd func(*decisionlog.WaitEnd)
}

// Read reads the decisions of a decision log and converts them to entries. See [ReadRecords].
func Read(name string, from io.Reader, beside Beside) ([]Entry, Source, error) {
	records, source, err := ReadRecords(name, from, beside)
	entries := make([]Entry, 0, len(records))
	for i := range records {
		entries = append(entries, FromRecord(&records[i]))
	}
	return entries, source, err
}

// ReadRecords reads the decisions of a decision log. It skips invalid lines and counts them. It
// returns an [*EmptyError] if there is no decision.
func ReadRecords(name string, from io.Reader, beside Beside) ([]decisionlog.Record, Source, error) {
	source := Source{Name: name}
	var records []decisionlog.Record
	var empty EmptyError
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
			empty.Beside++
		case errors.Is(bad, decisionlog.ErrWaitEnd):
			source.seeEnd(line, beside.WaitEnd)
			empty.Beside++
		default:
			source.Broken++
			empty.First = cmp.Or(empty.First, bad)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, source, fmt.Errorf("read %s: %w", name, err)
		}
	}
	if len(records) == 0 {
		return nil, source, &empty
	}
	return records, source, nil
}

// seeEnd calls seen with the WaitEnd of a line, unless seen is nil.
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

// see calls inputs with the inputs of a line, unless inputs is nil.
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
