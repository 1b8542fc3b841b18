package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStrict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want string }{
		"no field that is not named": {
			given: `{"type": "object", "description": "a", "properties": {"a": {"type": "string", "description": "b", "default": "c"}}}`,
			want:  `{"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}`,
		},
		"a field that is called as a keyword is": {
			given: `{"properties": {"description": {"type": "string"}, "default": {}}}`,
			want:  `{"properties": {"description": {"type": "string"}, "default": {}}, "additionalProperties": false}`,
		},
		"unknown fields that are kept": {
			given: `{"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": true}`,
			want:  `{"type": "object", "properties": {"a": {}}}`,
		},
		"a map": {
			given: `{"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {}}}}`,
			want:  `{"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {}}, "additionalProperties": false}}`,
		},
		"items": {
			given: `{"type": "array", "items": {"$ref": "#/definitions/a", "description": "b"}}`,
			want:  `{"type": "array", "items": {"$ref": "#/definitions/a"}}`,
		},
		"a number or a string, in OpenAPI":      {given: `{"type": "string", "format": "int-or-string"}`, want: `{"type": ["integer", "string"]}`},
		"a number or a string, in a definition": {given: `{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}`, want: `{"type": ["integer", "string"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(strict(parse(t, c.given)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, c.want), parse(t, string(raw))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDocumentOf checks that a document contains exactly the definitions that its kind refers to,
// and no status.
func TestDocumentOf(t *testing.T) {
	t.Parallel()
	definitions := map[string]schema{
		"a": parse(t, `{"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "A"}],
			"required": ["status", "spec"], "properties": {"spec": {"$ref": "#/definitions/b"}, "status": {"$ref": "#/definitions/d"}}}`),
		"b": parse(t, `{"properties": {"again": {"$ref": "#/definitions/b"}, "c": {"items": {"$ref": "#/definitions/c"}}}}`),
		"c": parse(t, `{"type": "string"}`),
		"d": parse(t, `{"type": "object"}`),
	}
	kind := gvk{Group: "example.com", Version: "v1", Kind: "A"}
	got, err := documentOf(kind, definitions)
	if err != nil {
		t.Fatal(err)
	}
	want := document{kind: "a", definitions: map[string]schema{
		"a": {"required": []any{"spec"}, "properties": schema{"spec": schema{"$ref": "#/definitions/b"}}, "additionalProperties": false},
		"b": {"additionalProperties": false, "properties": schema{
			"again": schema{"$ref": "#/definitions/b"}, "c": schema{"items": schema{"$ref": "#/definitions/c"}},
		}},
		"c": {"type": "string"},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(document{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := kind.file(), "a-example-v1.json"; got != want {
		t.Errorf("the file is %s, want %s", got, want)
	}
	kind.Kind = "B"
	if _, err := documentOf(kind, definitions); err == nil {
		t.Error("there is a schema of a kind that does not exist")
	}
}

func parse(t *testing.T, text string) schema {
	t.Helper()
	var out schema
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
