package decisionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// WaitEndSchema is the version of the JSON of a [WaitEnd]. It changes by the same rules as
// [Schema].
const WaitEndSchema = "reprieve.dev/wait-end/v1"

// WaitEnd is a line of the log that records how the wait of a decision's workload ended.
type WaitEnd struct {
	// Schema is the version of the format.
	Schema string `json:"schema"`
	// Time is the time when the scheduler saw the end of the wait, in UTC.
	Time time.Time `json:"time"`
	// Process is the scheduler process that recorded the line.
	Process string `json:"process"`
	// Sequence is the sequence number of the process's last decision about the workload.
	Sequence uint64 `json:"sequence"`
	// Namespace, Name, UID and Gang identify the workload. The decision's preemptor has the same
	// values.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Gang      bool   `json:"gang,omitempty"`
	// End says how the wait ended.
	End End `json:"end"`
}

// End says how a workload's wait ended.
type End string

const (
	// Bound means that the pod is bound. For a gang, it means that minCount members are bound.
	Bound End = "Bound"
	// Gone means that the workload was deleted before it was bound.
	Gone End = "Gone"
)

// ErrWaitEnd is the error of [Parse] for a line that holds a [WaitEnd] instead of a decision.
var ErrWaitEnd = errors.New("not a decision but the end of a wait")

// ParseWaitEnd reads a WaitEnd from a line. If the line has another version or is of another kind,
// the error wraps ErrSchema.
func ParseWaitEnd(line []byte) (WaitEnd, error) {
	var end WaitEnd
	if err := json.Unmarshal(line, &end); err != nil {
		return WaitEnd{}, fmt.Errorf("read the end of a wait: %w", err)
	}
	if end.Schema != WaitEndSchema {
		return WaitEnd{}, fmt.Errorf("%w: its schema is %q, and %q is known", ErrSchema, end.Schema, WaitEndSchema)
	}
	return end, nil
}

// EncodeWaitEnd writes a WaitEnd as one line of JSON.
func EncodeWaitEnd(w io.Writer, end *WaitEnd) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(end)
}

// Followed is the default number of workloads that a Log follows until their wait ends. If there
// are more, the Log stops following the workloads whose last decision is the oldest.
const Followed = 20_000

// waits holds the workloads whose wait has not ended, each with its last decision. The Log's lock
// guards it.
type waits struct {
	most int
	open map[workload.Key]*wait
	// order holds the waits by the age of their last decision, the oldest first. It may also hold
	// waits that have ended or have a later decision.
	order []*wait
}

// wait is the last decision about one workload.
type wait struct {
	key      workload.Key
	sequence uint64
	uid      string
}

// workloadKey returns the workload key of a preemptor. Only the key of a pod has a UID; the key of
// a gang has none.
func workloadKey(p *core.Preemptor) workload.Key {
	key := workload.Key{Gang: p.Gang, Namespace: p.Namespace, Name: p.Name}
	if !p.Gang {
		key.UID = p.UID
	}
	return key
}

// begin starts following the workload of a decision.
func (w *waits) begin(r *Record) {
	key := workloadKey(&r.Decision.Preemptor)
	one := &wait{key: key, sequence: r.Sequence, uid: r.Decision.Preemptor.UID}
	if w.open == nil {
		w.open = make(map[workload.Key]*wait)
	}
	w.open[key] = one
	w.order = append(w.order, one)
	for len(w.open) > w.most {
		oldest := w.order[0]
		w.order = w.order[1:]
		if w.open[oldest.key] == oldest {
			delete(w.open, oldest.key)
		}
	}
	if len(w.order) > 2*len(w.open)+64 {
		kept := make([]*wait, 0, len(w.open))
		for _, one := range w.order {
			if w.open[one.key] == one {
				kept = append(kept, one)
			}
		}
		w.order = kept
	}
}

// end stops following a workload and returns its last decision. It returns false if the workload
// was not followed.
func (w *waits) end(key workload.Key) (wait, bool) {
	one := w.open[key]
	if one == nil {
		return wait{}, false
	}
	delete(w.open, key)
	return *one, true
}

// Awaits reports whether the workload has had a decision and its wait has not ended since.
func (l *Log) Awaits(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits.open[key] != nil
}

// EndWait records the end of a workload's wait. It does nothing if no decision about the workload
// was recorded, or if its wait has already ended.
func (l *Log) EndWait(key workload.Key, how End, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.waits.end(key)
	if !ok {
		return
	}
	end := WaitEnd{
		Schema: WaitEndSchema, Time: at.UTC(), Process: l.process, Sequence: one.sequence,
		Namespace: key.Namespace, Name: key.Name, UID: one.uid, Gang: key.Gang, End: how,
	}
	l.ends = append(l.ends, end)
	// Keep each end only as long as its decision can be in memory.
	for first := l.firstKept(); len(l.ends) > 0 && (l.ends[0].Sequence < first || len(l.ends) > l.kept); {
		l.ends = l.ends[1:]
	}
	l.hand(&ending{end, l.observer})
}

// Ends returns the latest ends of waits, the oldest first.
func (l *Log) Ends() []WaitEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]WaitEnd(nil), l.ends...)
}

func (l *Log) firstKept() uint64 { return l.sequence - uint64(len(l.latest)) + 1 }

// ending implements Line for a WaitEnd.
type ending struct {
	WaitEnd
	observer Observer
}

// Encode implements Line.
func (e *ending) Encode(w io.Writer) error { return EncodeWaitEnd(w, &e.WaitEnd) }

// Written implements Line.
func (e *ending) Written() { e.observer.Written() }

// Unwritten implements Line.
func (e *ending) Unwritten(err error) { e.observer.Unwritable(err) }
