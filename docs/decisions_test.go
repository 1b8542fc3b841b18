package docs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// paths returns the fields of a type's JSON, each with the path from the top.
func paths(of reflect.Type, at string) []string {
	switch of.Kind() {
	case reflect.Pointer:
		return paths(of.Elem(), at)
	case reflect.Slice:
		return paths(of.Elem(), at+"[]")
	case reflect.Struct:
	default:
		return []string{strings.TrimSuffix(at, "[]")}
	}
	if slices.Contains([]reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[corev1.Taint]()}, of) {
		return []string{strings.TrimSuffix(at, "[]")}
	}
	var out []string
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			out = append(out, paths(f.Type, at)...)
		case name != "-" && f.IsExported():
			out = append(out, paths(f.Type, strings.TrimPrefix(at+"."+name, "."))...)
		}
	}
	return out
}

// documented returns the fields in the tables of a section. A field that begins with a dot has the
// same parent as the first field of its row.
func documented(section string) []string {
	var out []string
	for _, r := range tables(section)["field"] {
		beside := r.heads[0][:strings.LastIndex(r.heads[0], ".")+1]
		for _, head := range r.heads {
			if rest, ok := strings.CutPrefix(head, "."); ok {
				head = beside + rest
			}
			out = append(out, head)
		}
	}
	return out
}

// TestDecisions checks that the page has exactly the fields of a record and of a snapshot, and that
// its example line is a valid record.
func TestDecisions(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	lines, ofSnapshot, found := strings.Cut(string(raw), "\n## The snapshot\n")
	if !found {
		t.Fatal("The page has no section about the snapshot")
	}
	ofSnapshot, ofInputs, found := strings.Cut(ofSnapshot, "\n## Inputs of decisions\n")
	if !found {
		t.Fatal("The page has no section about the inputs of decisions")
	}
	lines, ofEnds, found := strings.Cut(lines, "\n## How the wait ended\n")
	if !found {
		t.Fatal("The page has no section about how waits ended")
	}
	for what, c := range map[string]struct {
		section string
		of      reflect.Type
		schema  string
	}{
		"record":   {lines, reflect.TypeFor[decisionlog.Record](), decisionlog.Schema},
		"ends":     {ofEnds, reflect.TypeFor[decisionlog.WaitEnd](), decisionlog.WaitEndSchema},
		"snapshot": {ofSnapshot, reflect.TypeFor[snapshot.State](), snapshot.StateSchema},
		"inputs":   {ofInputs, reflect.TypeFor[decisionlog.Inputs](), decisionlog.InputsSchema},
	} {
		got, want := documented(c.section), paths(c.of, "")
		for _, field := range want {
			if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != field })); n != 1 {
				t.Errorf("%s: %s stands in the page %d times, want once", what, field, n)
			}
		}
		for _, field := range got {
			if !slices.Contains(want, field) {
				t.Errorf("%s: the page has %s, which there is not", what, field)
			}
		}
		if !strings.Contains(c.section, "`"+c.schema+"`") {
			t.Errorf("%s: the page does not name the schema %s", what, c.schema)
		}
	}
	_, rest, _ := strings.Cut(lines, "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	golden, err := os.ReadFile(filepath.Join("..", "internal", "decisionlog", "testdata", "carried-out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Indent(&want, golden, "", "  "); err != nil {
		t.Fatal(err)
	}
	if example != want.String() {
		t.Errorf("The page shows\n%s\nwant\n%s", example, want.String())
	}
}

// TestDecisionsStates checks that the page has all states of a decision.
func TestDecisionsStates(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []decisionlog.State{
		decisionlog.Waiting, decisionlog.UnderWay, decisionlog.CarriedOut, decisionlog.GivenUp, decisionlog.Failed,
	} {
		if !strings.Contains(string(raw), "`"+string(state)+"`") {
			t.Errorf("%s is not in the page", state)
		}
	}
}
