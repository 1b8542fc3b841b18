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

// Inputs is a line of the log with the inputs of later decisions. A line has the objects of the
// whole cluster, or the changes since the previous line of inputs. A [Record] names the last line
// that its inputs include.
type Inputs struct {
	// Schema is the version of the format.
	Schema string `json:"schema"`
	// Time is the time of this state, in UTC.
	Time time.Time `json:"time"`
	// Process is the scheduler process that recorded the line.
	Process string `json:"process"`
	// Number counts the lines of inputs of the process from 1.
	Number uint64 `json:"number"`
	// From is the number of the previous line of inputs. It is 0 for a line with the whole cluster.
	From uint64 `json:"from,omitempty"`
	// Whole describes the process. Only a line with the whole cluster has it.
	Whole *Whole `json:"whole,omitempty"`
	// Objects maps a resource to its objects: all of them in a line with the whole cluster,
	// otherwise the new and changed ones.
	Objects map[string][]json.RawMessage `json:"objects,omitempty"`
	// Gone maps a resource to the objects deleted since the previous line, as namespace/name.
	Gone map[string][]string `json:"gone,omitempty"`
	// Promised has all reservations, not only the changes.
	Promised []Reservation `json:"promised,omitempty"`
	// Leaving has the UIDs of all pods that the scheduler is evicting and whose status does not
	// show that yet.
	Leaving []string `json:"leaving,omitempty"`
}

// Whole describes the scheduler process that recorded a line, and the format of the objects.
type Whole struct {
	// Version is the scheduler's version.
	Version string `json:"version,omitempty"`
	// Configuration is the text of the scheduler's configuration file. It is empty if there is no
	// file.
	Configuration string `json:"configuration,omitempty"`
	// Redacted is true if images, addresses, messages and most annotations were removed.
	Redacted bool `json:"redacted,omitempty"`
	// NativeVersion is the API version of the PodGroups of scheduling.k8s.io. It is empty if the
	// objects include no such PodGroups.
	NativeVersion string `json:"nativeVersion,omitempty"`
	// Roots lists the recorded kinds of objects that define which pods belong together. It is nil
	// in lines of scheduler versions that did not record such objects.
	Roots []Root `json:"roots,omitzero"`
}

// Root is a kind of object that defines which pods belong together, such as Job.
type Root struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
}

// Reservation is room that the scheduler reserves on a node for a pod.
type Reservation struct {
	// UID is the pod's UID.
	UID  string `json:"uid"`
	Node string `json:"node"`
}

// ErrInputs is the error of [Parse] for a line that holds [Inputs] instead of a decision.
var ErrInputs = errors.New("not a decision, but inputs of decisions")

// ParseInputs reads one line of inputs. If the line has another version or is of another kind, the
// error wraps ErrSchema.
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
