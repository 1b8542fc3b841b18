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

// WaitEndSchema is the version of the JSON of a [WaitEnd], by the same rules as [Schema].
const WaitEndSchema = "reprieve.dev/wait-end/v1"

// WaitEnd says how the wait of a workload ended that a decision was about, as a line of the log
// beside the records of decisions.
type WaitEnd struct {
	// Schema is the version of this form.
	Schema string `json:"schema"`
	// Time is when the scheduler saw the end, in UTC, and Process the scheduler process that saw
	// it.
	Time    time.Time `json:"time"`
	Process string    `json:"process"`
	// Sequence is that of the last decision of the process about the workload.
	Sequence uint64 `json:"sequence"`
	// Namespace, Name, UID and Gang name the workload as the preemptor of that decision does.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Gang      bool   `json:"gang,omitempty"`
	// End says how the wait ended.
	End End `json:"end"`
}

// End is how the wait of a workload ended.
type End string

const (
	// Bound: the pod is on a node; of a gang, as many members as its minCount.
	Bound End = "Bound"
	// Gone: the workload was deleted before that.
	Gone End = "Gone"
)

// ErrWaitEnd is the error of [Parse] for a line that is no decision but a [WaitEnd].
var ErrWaitEnd = errors.New("not a decision but the end of a wait")

// ParseWaitEnd reads one line with the end of a wait. The error wraps ErrSchema where the line is
// of another version, or of something else.
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

// EncodeWaitEnd writes the end of a wait as one line.
func EncodeWaitEnd(w io.Writer, end *WaitEnd) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(end)
}

// Followed is how many workloads a Log follows at most until their wait ends. Of more, those
// decided about least recently are forgotten.
const Followed = 20_000

// waits are the workloads whose last decision leaves them waiting, with that decision. It is used
// under the Log's lock.
type waits struct {
	most int
	open map[workload.Key]*wait
	// order has the waits by their last decision, the oldest first, and outdated ones among them.
	order []*wait
}

// wait is the last decision about one workload.
type wait struct {
	key      workload.Key
	sequence uint64
	uid      string
}

// workloadKey is the key of a preemptor: gangs go by their names, pods by their UIDs.
func workloadKey(p *core.Preemptor) workload.Key {
	key := workload.Key{Gang: p.Gang, Namespace: p.Namespace, Name: p.Name}
	if !p.Gang {
		key.UID = p.UID
	}
	return key
}

// begin follows the workload that a decision is about.
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

// end ends the wait of a workload, and reports false where none is followed.
func (w *waits) end(key workload.Key) (wait, bool) {
	one := w.open[key]
	if one == nil {
		return wait{}, false
	}
	delete(w.open, key)
	return *one, true
}

// Awaits reports whether the last decision about a workload left it waiting, and no end is recorded
// since.
func (l *Log) Awaits(key workload.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits.open[key] != nil
}

// EndWait records how the wait of a workload ended. Of a workload that no decision was about, or
// whose wait has ended, it records nothing.
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
	// As long as decisions are in memory, so are the ends of their waits.
	for first := l.firstKept(); len(l.ends) > 0 && (l.ends[0].Sequence < first || len(l.ends) > l.kept); {
		l.ends = l.ends[1:]
	}
	l.hand(&ending{end, l.observer})
}

// Ends are the ends of waits in memory, the oldest first.
func (l *Log) Ends() []WaitEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]WaitEnd(nil), l.ends...)
}

// firstKept is the sequence of the oldest record in memory.
func (l *Log) firstKept() uint64 { return l.sequence - uint64(len(l.latest)) + 1 }

// ending is the end of a wait as a line.
type ending struct {
	WaitEnd
	observer Observer
}

// Encode is part of Line.
func (e *ending) Encode(w io.Writer) error { return EncodeWaitEnd(w, &e.WaitEnd) }

// Written is part of Line.
func (e *ending) Written() { e.observer.Written() }

// Unwritten is part of Line.
func (e *ending) Unwritten(err error) { e.observer.Unwritable(err) }
