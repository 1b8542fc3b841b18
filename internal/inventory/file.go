package inventory

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

const (
	// FileVersion is the version of the snapshot file format.
	FileVersion = "snapshot.reprieve.dev/v2"
	// OlderVersion is an earlier version that [Read] also accepts. Its files have no root objects;
	// see [Root].
	OlderVersion = "snapshot.reprieve.dev/v1"
	// FileKind is the kind of snapshot files.
	FileKind = "ClusterSnapshot"
)

// FileError is the error of [Read] for a file that is not a readable snapshot.
type FileError struct{ reason string }

// Error describes the fault in the file and the remedy.
func (e *FileError) Error() string { return e.reason }

// header is the first line of a snapshot file. It has all fields except the objects.
type header struct {
	APIVersion    string    `json:"apiVersion"`
	Kind          string    `json:"kind"`
	Taken         time.Time `json:"taken"`
	Redacted      bool      `json:"redacted,omitempty"`
	Native        string    `json:"nativeVersion,omitempty"`
	Configuration string    `json:"configuration,omitempty"`
	// Roots lists the kinds of root objects in the file.
	Roots []Root `json:"roots,omitempty"`
	// Counts maps a resource to its number of objects. [Read] uses it to detect an incomplete file.
	Counts map[string]int `json:"counts"`
}

type file struct {
	header
	Objects map[string][]json.RawMessage `json:"objects"`
}

// Write writes an Inventory as a snapshot file: one line for the header, and one line for each
// object. The same Inventory always produces the same bytes.
func Write(to io.Writer, in *Inventory) error {
	head := header{
		APIVersion: FileVersion, Kind: FileKind, Taken: in.Taken.UTC(), Redacted: in.Redacted, Native: in.native,
		Configuration: in.Configuration, Roots: in.roots, Counts: make(map[string]int),
	}
	for resource, list := range in.objects {
		if len(list) > 0 {
			head.Counts[resource] = len(list)
		}
	}
	out := bufio.NewWriter(to)
	if in.roots == nil {
		// Without roots, the older version can express everything, and older releases can read it.
		head.APIVersion = OlderVersion
	}
	first, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode the head of the snapshot: %w", err)
	}
	// Omit the closing brace, because the objects follow as the last field.
	fmt.Fprintf(out, "%s,\n\"objects\":{", first[:len(first)-1])
	for i, resource := range slices.Sorted(maps.Keys(head.Counts)) {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%q:[", resource)
		for j, object := range in.objects[resource] {
			if j > 0 {
				fmt.Fprint(out, ",")
			}
			fmt.Fprintf(out, "\n%s", object.Raw)
		}
		fmt.Fprint(out, "]")
	}
	fmt.Fprint(out, "}}\n")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// Read reads a snapshot file. It returns a [*FileError] if the file is incomplete, has an unknown
// version, or is not a snapshot.
func Read(from io.Reader) (*Inventory, error) {
	decoder := json.NewDecoder(bufio.NewReader(from))
	var f file
	err := decoder.Decode(&f)
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return nil, &FileError{"the snapshot is empty; take one with: kubectl reprieve snapshot > FILE"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &FileError{"the snapshot is cut off; take it again, with: kubectl reprieve snapshot > FILE"}
	case errors.As(err, &syntax):
		return nil, &FileError{fmt.Sprintf("the snapshot is no JSON at byte %d: %v", syntax.Offset, err)}
	case errors.As(err, &mistyped):
		return nil, &FileError{fmt.Sprintf("the snapshot is none of kubectl reprieve snapshot: its field %s is a JSON %s", mistyped.Field, mistyped.Value)}
	case err != nil:
		return nil, fmt.Errorf("read the snapshot: %w", err)
	case f.Kind != FileKind:
		return nil, &FileError{fmt.Sprintf("the file is no snapshot: its kind is %q; take one with: kubectl reprieve snapshot > FILE", f.Kind)}
	case f.APIVersion != FileVersion && f.APIVersion != OlderVersion:
		return nil, &FileError{fmt.Sprintf("the snapshot is of version %q, and this command reads %q and older ones; take it again, or use the command that it was taken with", f.APIVersion, FileVersion)}
	}
	return f.inventory()
}

func (f *file) inventory() (*Inventory, error) {
	out := New(f.Taken)
	out.Redacted, out.native, out.Configuration = f.Redacted, f.Native, f.Configuration
	if f.APIVersion == FileVersion {
		out.roots = append([]Root{}, f.Roots...)
	}
	for resource, want := range f.Counts {
		if got := len(f.Objects[resource]); got != want {
			return nil, &FileError{fmt.Sprintf("the snapshot has %d %s and says that there are %d; it has been changed, take it again", got, resource, want)}
		}
	}
	for resource, list := range f.Objects {
		objects := make([]Object, len(list))
		for i, raw := range list {
			var err error
			if objects[i], err = named(raw); err != nil {
				return nil, &FileError{fmt.Sprintf("the snapshot has a broken object among its %s: %v", resource, err)}
			}
		}
		if !slices.IsSortedFunc(objects, byName) {
			slices.SortFunc(objects, byName)
		}
		out.objects[resource] = objects
	}
	return out, nil
}
