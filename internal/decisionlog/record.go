package decisionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Schema is the version of a Record's JSON. A field that is added leaves it as it is; one that goes, or means something
// else, gives it another number.
const Schema = "reprieve.dev/decision/v1"

// Record is one decision of a scheduler that found no room as things were: one that preempts, one that waits for pods on
// their way out or for the end of a protection, or one for which there is no way.
type Record struct {
	// Schema is the version of this form; the Log fills it in.
	Schema string `json:"schema"`
	// Time is when the decision was made, in UTC.
	Time time.Time `json:"time"`
	// Process is the scheduler process that made it; the Log fills it in.
	Process string `json:"process"`
	// Sequence counts the decisions of the process from 1 on; the Log fills it in. Numbers that a file lacks are records
	// that were left out, or decisions that were not over when the process ended.
	Sequence uint64 `json:"sequence"`
	// Inputs is the number of the line of [Inputs] that has what the decision went by; 0 where none has.
	Inputs uint64 `json:"inputs,omitempty"`
	// Profile is the schedulerName of the pods.
	Profile string `json:"profile"`
	// Asks are what the workload asked for that was to be placed, one for each set of pods with the same needs.
	Asks []Ask `json:"asks"`
	// Repeated is true where no search was made, because an equal pod had just been told the same.
	Repeated bool `json:"repeated,omitempty"`
	// WaitsFor names the first of the pods on their way out for which the decision waits; empty where it waits for none.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Decision is the decision as the core made it. Its outcome is never Fits, but where only the limit of a queue was in
	// the way.
	Decision core.Decision `json:"decision"`
	// Lost is the work that stopping the victims loses, one for each of them, in their order; empty where there are none.
	Lost []Lost `json:"lost,omitempty"`
	// Result is what became of it.
	Result Result `json:"result"`
}

// Ask is what some pods ask for that have the same needs.
type Ask struct {
	// Pods is how many they are.
	Pods int `json:"pods"`
	// Request is what one of them occupies, by resource: milli-CPUs, bytes and counts. Resources that it does not ask for
	// are left out; one that no node has stands under "".
	Request map[string]int64 `json:"request"`
}

// Lost is the work that one victim loses: all that it has been given since it started, if it cannot go on where it was.
type Lost struct {
	// UID is that of the victim.
	UID string `json:"uid"`
	// Since is when the first of its pods started, in UTC; zero where none has.
	Since time.Time `json:"since,omitzero"`
	// Spent is what its pods have had since each of them started, by resource: milli-CPUs, bytes and counts,
	// times seconds.
	Spent map[string]float64 `json:"spent,omitempty"`
}

// Spend adds a pod that has had these amounts since its start.
func (l *Lost) Spend(start, now time.Time, amounts map[string]int64) {
	if start = start.UTC(); l.Since.IsZero() || start.Before(l.Since) {
		l.Since = start
	}
	seconds := max(now.Sub(start).Seconds(), 0)
	for resource, amount := range amounts {
		if amount == 0 || seconds == 0 {
			continue
		}
		if l.Spent == nil {
			l.Spent = make(map[string]float64, len(amounts))
		}
		l.Spent[resource] += float64(amount) * seconds
	}
}

// AsksOf are what the classes of a preemptor ask for, in the resources of a snapshot.
func AsksOf(classes []core.Class, resources []string) []Ask {
	asks := make([]Ask, len(classes))
	for i := range classes {
		asks[i] = Ask{Pods: len(classes[i].Members), Request: make(map[string]int64, len(resources))}
		for r, v := range classes[i].Request {
			if v != 0 {
				asks[i].Request[resources[r]] = v
			}
		}
	}
	return asks
}

// State says how far a decision has come.
type State string

const (
	// Waiting: there is nothing to carry out. The workload waits for what the decision says.
	Waiting State = "Waiting"
	// UnderWay: the calls that remove the victims are being made, or were when the process ended.
	UnderWay State = "UnderWay"
	// CarriedOut: all victims are on their way out.
	CarriedOut State = "CarriedOut"
	// GivenUp: the decision did not apply any more, because the preemptor or a victim was not what it had been.
	GivenUp State = "GivenUp"
	// Failed: a call failed; the preemptor tries again.
	Failed State = "Failed"
)

// Result is what became of a decision.
type Result struct {
	State State `json:"state"`
	// Time is when that was known, in UTC; zero for Waiting and UnderWay.
	Time time.Time `json:"time,omitzero"`
	// Error is what was in the way; empty unless the decision was given up or failed.
	Error string `json:"error,omitempty"`
	// Begun is how many pods of the victims go although the decision was given up or failed.
	Begun int `json:"begun,omitempty"`
}

// ErrSchema is the error of a record in a form that this version does not read.
var ErrSchema = errors.New("not a record that this version reads")

// Parse reads one line of a record. The error wraps ErrSchema where the line is of another version, or of something else, and
// is ErrInputs for one of [Inputs] and ErrWaitEnd for a [WaitEnd].
func Parse(line []byte) (Record, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Record{}, fmt.Errorf("read a record of a decision: %w", err)
	}
	if head.Schema == InputsSchema {
		return Record{}, ErrInputs
	}
	if head.Schema == WaitEndSchema {
		return Record{}, ErrWaitEnd
	}
	if head.Schema != Schema {
		return Record{}, fmt.Errorf("%w: its schema is %q, and %q is known", ErrSchema, head.Schema, Schema)
	}
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return Record{}, fmt.Errorf("read a record of a decision: %w", err)
	}
	return r, nil
}
