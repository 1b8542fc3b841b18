package decisionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// InputsSchema is the version of the JSON of [Inputs], by the same rules as [Schema].
const InputsSchema = "reprieve.dev/inputs/v1"

// Inputs are what decisions went by, as a line of the log between the records of decisions. A line has the whole cluster, or
// what has changed since the line before. The [Record] of a decision names the last line that it went by.
type Inputs struct {
	// Schema is the version of this form.
	Schema string `json:"schema"`
	// Time is when it was so, in UTC, and Process the scheduler process that saw it.
	Time    time.Time `json:"time"`
	Process string    `json:"process"`
	// Number counts the lines of the process from 1 on. From is the line that this one goes on from; 0 for one that has the
	// whole cluster.
	Number uint64 `json:"number"`
	From   uint64 `json:"from,omitempty"`
	// Whole is what stands only in a line that has the whole cluster; nil in others.
	Whole *Whole `json:"whole,omitempty"`
	// Objects are those that there are, or that are new or have changed, by resource, and Gone those that are there no more, by
	// resource, as namespace/name.
	Objects map[string][]json.RawMessage `json:"objects,omitempty"`
	Gone    map[string][]string          `json:"gone,omitempty"`
	// Promised is all room that is promised to pods which wait, and Leaving the UIDs of the pods that are being removed and do
	// not say so themselves yet. Both are whole in every line.
	Promised []Promise `json:"promised,omitempty"`
	Leaving  []string  `json:"leaving,omitempty"`
}

// Whole says which process saw the cluster, and how it is written.
type Whole struct {
	// Version is the scheduler's, and Configuration the text of its configuration; empty for the default one.
	Version       string `json:"version,omitempty"`
	Configuration string `json:"configuration,omitempty"`
	// Redacted is true where what may tell of people has been left out.
	Redacted bool `json:"redacted,omitempty"`
	// NativeVersion is that of the PodGroups of scheduling.k8s.io; empty where there are none.
	NativeVersion string `json:"nativeVersion,omitempty"`
	// Roots are the kinds of objects that say which pods belong together, and that are among the objects; nil where a version wrote
	// the line that left them out.
	Roots []Root `json:"roots,omitzero"`
}

// Root is a kind of objects that say which pods belong together, such as Jobs.
type Root struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
}

// Promise is room on a node that is promised to a pod.
type Promise struct {
	UID  string `json:"uid"`
	Node string `json:"node"`
}

// ErrInputs is the error of [Parse] for a line that is no decision but what decisions went by.
var ErrInputs = errors.New("not a decision but what decisions went by")

// ParseInputs reads one line of inputs. The error wraps ErrSchema where the line is of another version, or of something else.
func ParseInputs(line []byte) (Inputs, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Inputs{}, fmt.Errorf("read what decisions went by: %w", err)
	}
	if head.Schema != InputsSchema {
		return Inputs{}, fmt.Errorf("%w: its schema is %q, and %q is known", ErrSchema, head.Schema, InputsSchema)
	}
	var in Inputs
	if err := json.Unmarshal(line, &in); err != nil {
		return Inputs{}, fmt.Errorf("read what decisions went by: %w", err)
	}
	return in, nil
}

// EncodeInputs writes inputs as one line.
func EncodeInputs(w io.Writer, in *Inputs) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(in)
}
