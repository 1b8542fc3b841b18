package decisionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// InputsSchema is the version of the JSON of [Inputs]. It changes by the same rules as [Schema].
const InputsSchema = "reprieve.dev/inputs/v1"

// Inputs are the inputs of decisions, as a line of the log between the records. A line has the
// whole cluster, or the changes since the previous line. The [Record] of a decision names the last
// line that belongs to its inputs.
type Inputs struct {
	// Schema is the version of the format.
	Schema string `json:"schema"`
	// Time is the time of this state, in UTC. Process is the scheduler process that recorded it.
	Time    time.Time `json:"time"`
	Process string    `json:"process"`
	// Number counts the lines of the process from 1. From is the number of the line before, or 0
	// for a line with the whole cluster.
	Number uint64 `json:"number"`
	From   uint64 `json:"from,omitempty"`
	// Whole describes the process. It is nil unless the line has the whole cluster.
	Whole *Whole `json:"whole,omitempty"`
	// Objects holds the objects by resource: all of them, or only the new and changed ones. Gone
	// holds the deleted ones by resource, as namespace/name.
	Objects map[string][]json.RawMessage `json:"objects,omitempty"`
	Gone    map[string][]string          `json:"gone,omitempty"`
	// Promised has all reservations. Leaving has the UIDs of the pods that the scheduler is
	// evicting, while their status does not show that yet. Each line has both in full.
	Promised []Reservation `json:"promised,omitempty"`
	Leaving  []string      `json:"leaving,omitempty"`
}

// Whole describes the process that recorded the cluster and the format of the objects.
type Whole struct {
	// Version is the scheduler's version. Configuration is the text of its configuration, or empty
	// for the default.
	Version       string `json:"version,omitempty"`
	Configuration string `json:"configuration,omitempty"`
	// Redacted is true if images, addresses, messages and most annotations were removed.
	Redacted bool `json:"redacted,omitempty"`
	// NativeVersion is the API version of the PodGroups of scheduling.k8s.io, or empty if there are
	// none.
	NativeVersion string `json:"nativeVersion,omitempty"`
	// Roots lists the kinds of objects that define which pods belong together and that are
	// recorded. It is nil in lines of versions that did not record them.
	Roots []Root `json:"roots,omitzero"`
}

// Root is a kind of objects that define which pods belong together, such as Jobs.
type Root struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
}

// Reservation is a pod's reservation on a node.
type Reservation struct {
	UID  string `json:"uid"`
	Node string `json:"node"`
}

// ErrInputs is the error of [Parse] for a line that holds inputs and not a decision.
var ErrInputs = errors.New("not a decision, but inputs of decisions")

// ParseInputs reads one line of inputs. If the line has another version or another kind, the error
// wraps ErrSchema.
func ParseInputs(line []byte) (Inputs, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Inputs{}, fmt.Errorf("read the inputs of decisions: %w", err)
	}
	if head.Schema != InputsSchema {
		return Inputs{}, fmt.Errorf("%w: its schema is %q, and %q is known", ErrSchema, head.Schema, InputsSchema)
	}
	var in Inputs
	if err := json.Unmarshal(line, &in); err != nil {
		return Inputs{}, fmt.Errorf("read the inputs of decisions: %w", err)
	}
	return in, nil
}

// EncodeInputs writes inputs as one line.
func EncodeInputs(w io.Writer, in *Inputs) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(in)
}
