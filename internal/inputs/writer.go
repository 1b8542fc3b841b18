package inputs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// change is an object that was added or changed. A nil object means that it was deleted.
type change struct {
	resource string
	key      types.NamespacedName
	object   any
}

// delta holds the changes since the previous line. The log encodes it when it writes the line.
type delta struct {
	writer  *writer
	head    decisionlog.Inputs
	changes []change
}

var _ decisionlog.Line = (*delta)(nil)

// collect adds all changes since the last line to the delta. The caller must hold the Recorder's
// lock.
func (d *delta) collect(r *Recorder) {
	for key := range r.touched {
		pod := r.podOf(key)
		if pod == r.written[key] {
			continue
		}
		c := change{resource: inventory.Pods, key: key}
		if pod != nil {
			c.object = pod
		}
		d.changes = append(d.changes, c)
	}
	for resource, objects := range r.changed {
		for key, object := range objects {
			d.changes = append(d.changes, change{resource, key, object})
		}
	}
}

// Encode implements decisionlog.Line.
func (d *delta) Encode(to io.Writer) error { return d.writer.write(to, d) }

// Written implements decisionlog.Line.
func (d *delta) Written() { d.writer.writing = false }

// Unwritten implements decisionlog.Line.
func (d *delta) Unwritten(err error) { d.writer.unwritten(err) }

// writer encodes lines. It keeps the state of the cluster that the lines describe. Only the
// goroutine of the log uses it.
type writer struct {
	whole       decisionlog.Whole
	annotations []string
	unwritable  func(error)
	// objects holds all existing objects by resource and name.
	objects map[string]map[types.NamespacedName]any
	// last is the last written line, without its objects.
	last decisionlog.Inputs
	// lost is true at the start and after a failed write. The next line then contains the whole
	// cluster.
	lost bool
	// writing is true while a line with the whole cluster is being written. If the log starts a new
	// file during that write, the new file needs no further line with the whole cluster.
	writing bool
}

func newWriter(o Options) *writer {
	w := &writer{whole: o.Whole, annotations: o.Annotations, unwritable: o.Unwritable, objects: make(map[string]map[types.NamespacedName]any), lost: true}
	if w.unwritable == nil {
		w.unwritable = func(error) {}
	}
	return w
}

// write encodes the changes of a delta as a line. If lost is true, it encodes the whole cluster
// instead.
func (w *writer) write(to io.Writer, d *delta) error {
	for _, c := range d.changes {
		if w.objects[c.resource] == nil {
			w.objects[c.resource] = make(map[types.NamespacedName]any)
		}
		if c.object == nil {
			delete(w.objects[c.resource], c.key)
		} else {
			w.objects[c.resource][c.key] = c.object
		}
	}
	w.last = d.head
	if w.lost {
		w.lost, w.writing = false, true
		return w.Whole(to)
	}
	line := d.head
	line.Schema = decisionlog.InputsSchema
	// Sort a copy, because the Recorder may still read d.changes.
	changes := slices.SortedFunc(slices.Values(d.changes), func(a, b change) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.key.String(), b.key.String()))
	})
	for _, c := range changes {
		if c.object == nil {
			if line.Gone == nil {
				line.Gone = make(map[string][]string)
			}
			line.Gone[c.resource] = append(line.Gone[c.resource], c.key.String())
			continue
		}
		if err := w.put(&line, c.resource, c.object); err != nil {
			return err
		}
	}
	return decisionlog.EncodeInputs(to, &line)
}

// Whole writes a line with the whole cluster in the state of the last line. It writes nothing if
// there is no line yet.
func (w *writer) Whole(to io.Writer) error {
	if w.last.Number == 0 {
		return nil
	}
	line := w.last
	whole := w.whole
	line.Schema, line.From, line.Whole = decisionlog.InputsSchema, 0, &whole
	for _, resource := range slices.Sorted(maps.Keys(w.objects)) {
		objects := w.objects[resource]
		keys := slices.SortedFunc(maps.Keys(objects), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
		for _, key := range keys {
			if err := w.put(&line, resource, objects[key]); err != nil {
				return err
			}
		}
	}
	return decisionlog.EncodeInputs(to, &line)
}

func (w *writer) put(line *decisionlog.Inputs, resource string, object any) error {
	raw, err := w.encode(resource, object)
	if err != nil {
		return err
	}
	if line.Objects == nil {
		line.Objects = make(map[string][]json.RawMessage)
	}
	line.Objects[resource] = append(line.Objects[resource], raw)
	return nil
}

// encode returns the JSON of an object, without the fields that no decision depends on.
func (w *writer) encode(resource string, object any) (json.RawMessage, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encode an object of %s: %w", resource, err)
	}
	u := &unstructured.Unstructured{Object: fields}
	if kind, ok := inventory.KindOf(resource); ok && u.GetKind() == "" {
		u.SetGroupVersionKind(kind)
	}
	if resource == inventory.Pods {
		// Drop the nominated node, because lines contain the scheduler's reservations.
		unstructured.RemoveNestedField(fields, "status", "nominatedNodeName")
	}
	redaction := inventory.Full
	if w.whole.Redacted {
		redaction = inventory.Redacted
	}
	out, err := inventory.Trim(resource, fields, redaction, w.annotations...)
	if err != nil {
		return nil, fmt.Errorf("encode an object of %s: %w", resource, err)
	}
	return out.Raw, nil
}

func (w *writer) unwritten(err error) {
	w.lost, w.writing = true, false
	w.unwritable(err)
}

// Head writes the first line of a new log file, which contains the whole cluster. Only the
// goroutine of the log may call it.
func (r *Recorder) Head(to io.Writer) error {
	if r.writer.writing {
		return nil
	}
	return r.writer.Whole(to)
}
