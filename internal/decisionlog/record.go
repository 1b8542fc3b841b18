package decisionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Schema is the version of a Record's JSON. Adding a field does not change the version. Removing a
// field, or changing its meaning, requires a new version.
const Schema = "reprieve.dev/decision/v1"

// Record is one decision for a workload that found no free room, with its result. The decision
// preempts, waits for terminating pods, waits for the end of a protection, or finds no solution.
type Record struct {
	// Schema is the version of the format. The Log sets it.
	Schema string `json:"schema"`
	// Time is the time of the decision, in UTC.
	Time time.Time `json:"time"`
	// Process is the scheduler process that decided. The Log sets it.
	Process string `json:"process"`
	// Sequence counts the decisions of the process from 1. The Log sets it. A missing number in a
	// file means one of two things: the record was dropped, or the process ended before the
	// decision had a result.
	Sequence uint64 `json:"sequence"`
	// Inputs is the [Inputs.Number] of the last line that the decision's inputs include. It is 0 if
	// inputs are not recorded.
	Inputs uint64 `json:"inputs,omitempty"`
	// Profile is the schedulerName of the workload's pods.
	Profile string `json:"profile"`
	// Asks lists the requests of the pods that were to be placed, one entry for each set of pods
	// with the same scheduling needs.
	Asks []Ask `json:"asks"`
	// Repeated is true if the scheduler made no search, because an equal pod had just got the same
	// result.
	Repeated bool `json:"repeated,omitempty"`
	// WaitsFor names the first terminating pod that the workload waits for. It is empty if there is
	// none.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Decision is the decision of package core. The outcome Fits means that there was free room,
	// and that only the limit of a queue prevented the placement.
	Decision core.Decision `json:"decision"`
	// Lost is the lost work of each victim, in the order of Decision's victims.
	Lost []Lost `json:"lost,omitempty"`
	// Result is the result of the decision.
	Result Result `json:"result"`
}

// Ask is the request of a set of pods with the same scheduling needs.
type Ask struct {
	// Pods is the number of pods in the set.
	Pods int `json:"pods"`
	// Request maps a resource to the request of one pod, in milli-CPUs for CPU, bytes for memory,
	// and counts for devices. Resources without a request are omitted. A resource that no node has
	// is listed under "".
	Request map[string]int64 `json:"request"`
}

// Lost is the work that one victim loses if it has to start again from the beginning: its resources
// multiplied by its running time.
type Lost struct {
	// UID is the victim's UID.
	UID string `json:"uid"`
	// Since is the start of the victim's first pod, in UTC. It is zero if no pod has started.
	Since time.Time `json:"since,omitzero"`
	// Spent maps a resource to the amounts of the victim's pods multiplied by their running times.
	// The units are milli-CPU seconds, byte seconds and count seconds.
	Spent map[string]float64 `json:"spent,omitempty"`
}

// Spend adds a pod that has had the given amounts of resources since start.
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

// AsksOf returns the requests of a preemptor's classes. resources are the names of the resources of
// the snapshot, in the order of each class's Request.
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
	// Waiting means that the decision evicts nothing. The workload waits for a reason that the
	// decision states.
	Waiting State = "Waiting"
	// UnderWay means that the victims are being evicted. It is also the state if the process ended
	// before the eviction did.
	UnderWay State = "UnderWay"
	// CarriedOut means that all victims have been evicted and are terminating.
	CarriedOut State = "CarriedOut"
	// GivenUp means that the eviction stopped, because the preemptor or a victim had changed.
	GivenUp State = "GivenUp"
	// Failed means that an API call of the eviction failed. The scheduler retries the preemptor.
	Failed State = "Failed"
)

// Result is the result of a decision.
type Result struct {
	State State `json:"state"`
	// Time is the time of the result, in UTC. It is zero for Waiting and UnderWay.
	Time time.Time `json:"time,omitzero"`
	// Error is the cause of GivenUp or Failed. It is empty for other states.
	Error string `json:"error,omitempty"`
	// Begun is the number of pods that were already evicted when the preemption was given up or
	// failed.
	Begun int `json:"begun,omitempty"`
}

// ErrSchema is the error for a line in a format that this version cannot read.
var ErrSchema = errors.New("not a record that this version reads")

// Parse reads the record of a decision from a line. If the line has another version or is of
// another kind, the error wraps ErrSchema. The error is ErrInputs for a line of [Inputs], and
// ErrWaitEnd for a [WaitEnd].
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
