package decisionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Schema is the version of a Record's JSON. A new field does not change it. Removing a field, or
// changing its meaning, requires a new version.
const Schema = "reprieve.dev/decision/v1"

// Record is one decision of a scheduler that found no free room. The decision preempts, waits for
// terminating pods or for the end of a protection, or finds no way.
type Record struct {
	// Schema is the version of the format. The Log sets it.
	Schema string `json:"schema"`
	// Time is the time of the decision, in UTC.
	Time time.Time `json:"time"`
	// Process is the scheduler process that decided. The Log sets it.
	Process string `json:"process"`
	// Sequence counts the decisions of the process from 1. The Log sets it. A number that is
	// missing in a file is a dropped record, or a decision that had no result when the process
	// ended.
	Sequence uint64 `json:"sequence"`
	// Inputs is the number of the line of [Inputs] that completes the decision's inputs, or 0 if
	// there is none.
	Inputs uint64 `json:"inputs,omitempty"`
	// Profile is the schedulerName of the pods.
	Profile string `json:"profile"`
	// Asks lists the requests of the workload's pods that were to be placed, one for each set of
	// pods with the same needs.
	Asks []Ask `json:"asks"`
	// Repeated is true if no search was made because an equal pod had just got the same result.
	Repeated bool `json:"repeated,omitempty"`
	// WaitsFor names the first terminating pod that the decision waits for, or is empty.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Decision is the decision as package core made it. Its outcome is Fits only if the limit of a
	// queue was the only obstacle.
	Decision core.Decision `json:"decision"`
	// Lost is the lost work of each victim, in the order of the victims. It is empty without
	// victims.
	Lost []Lost `json:"lost,omitempty"`
	// Result is the result of the decision.
	Result Result `json:"result"`
}

// Ask is the request of pods with the same needs.
type Ask struct {
	// Pods is the number of these pods.
	Pods int `json:"pods"`
	// Request holds the request of one pod by resource, in milli-CPUs, bytes and counts. Resources
	// without a request are omitted. A resource that no node has is listed under "".
	Request map[string]int64 `json:"request"`
}

// Lost is the work that one victim loses if it cannot continue where it stopped: all resources that
// it has held since its start.
type Lost struct {
	// UID is the victim's UID.
	UID string `json:"uid"`
	// Since is the start of the victim's first pod, in UTC. It is zero if no pod has started.
	Since time.Time `json:"since,omitzero"`
	// Spent holds the amounts of the victim's pods times their running time, by resource. The units
	// are milli-CPU seconds, byte seconds and count seconds.
	Spent map[string]float64 `json:"spent,omitempty"`
}

// Spend adds a pod that has held these amounts since its start.
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

// AsksOf returns the requests of a preemptor's classes, with the resources of a snapshot.
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

// State is the state of a decision.
type State string

const (
	// Waiting means that the decision evicts nothing. The workload waits for the cause in the
	// decision.
	Waiting State = "Waiting"
	// UnderWay means that the victims are being evicted, or were when the process ended.
	UnderWay State = "UnderWay"
	// CarriedOut means that all victims terminate.
	CarriedOut State = "CarriedOut"
	// GivenUp means that the decision did not apply any more, because the preemptor or a victim had
	// changed.
	GivenUp State = "GivenUp"
	// Failed means that a call failed. The preemptor retries.
	Failed State = "Failed"
)

// Result is the result of a decision.
type Result struct {
	State State `json:"state"`
	// Time is the time of the result, in UTC. It is zero for Waiting and UnderWay.
	Time time.Time `json:"time,omitzero"`
	// Error is the cause of GivenUp or Failed. It is empty for other states.
	Error string `json:"error,omitempty"`
	// Begun is the number of victims' pods that are evicted although the decision was given up or
	// failed.
	Begun int `json:"begun,omitempty"`
}

// ErrSchema is the error for a line whose format this version cannot read.
var ErrSchema = errors.New("not a record that this version reads")

// Parse reads one record. If the line has another version or another kind, the error wraps
// ErrSchema. The error is ErrInputs for a line of [Inputs] and ErrWaitEnd for a [WaitEnd].
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
