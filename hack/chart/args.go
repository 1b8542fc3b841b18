package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/config/v1alpha1"
)

// schema is a JSON schema. It has only the keywords that the arguments of the plugin need.
type schema struct {
	Type                 string             `json:"type,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	MinLength            int                `json:"minLength,omitempty"`
	Minimum              *int               `json:"minimum,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	UniqueItems          bool               `json:"uniqueItems,omitempty"`
	AdditionalProperties *bool              `json:"additionalProperties,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
}

// durations is the pattern of a valid duration in the arguments: a Go duration that is not
// negative.
const durations = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`

// schemaOf returns the JSON schema of a type in the arguments. Integers must not be negative. The
// scheduler checks other bounds, and conditions on more than one field, when it starts.
func schemaOf(t reflect.Type) (*schema, error) {
	named := map[reflect.Type]*schema{
		reflect.TypeFor[metav1.Duration]():        {Type: "string", Pattern: durations},
		reflect.TypeFor[v1alpha1.ResolveMethod](): {Enum: []string{string(v1alpha1.ResolveLCA), string(v1alpha1.ResolveQueue)}},
		reflect.TypeFor[v1alpha1.CascadeMode](): {
			Enum: []string{string(v1alpha1.CascadeOff), string(v1alpha1.CascadeMeasure), string(v1alpha1.CascadeDecide)},
		},
		reflect.TypeFor[v1alpha1.GroupOptIn]():  {Enum: []string{string(v1alpha1.OptInAnnotated), string(v1alpha1.OptInAlways)}},
		reflect.TypeFor[v1alpha1.GroupLabels](): {Enum: words(v1alpha1.KnownLabels())},
	}
	if s := named[t]; s != nil {
		return s, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		s, err := schemaOf(t.Elem())
		if err == nil && s.Type == "string" && s.Pattern == "" {
			// An optional string that is set must not be empty.
			s.MinLength = 1
		}
		return s, err
	case reflect.Bool:
		return &schema{Type: "boolean"}, nil
	case reflect.Int32, reflect.Int64:
		return &schema{Type: "integer", Minimum: new(int)}, nil
	case reflect.String:
		return &schema{Type: "string"}, nil
	case reflect.Slice:
		items, err := schemaOf(t.Elem())
		return &schema{Type: "array", Items: items, UniqueItems: t.Elem().Kind() == reflect.String}, err
	case reflect.Map:
		return &schema{Type: "object"}, nil
	case reflect.Struct:
		return schemaOfStruct(t)
	default:
		return nil, fmt.Errorf("no schema is known for %s", t)
	}
}

func schemaOfStruct(t reflect.Type) (*schema, error) {
	out := &schema{Type: "object", AdditionalProperties: new(bool), Properties: map[string]*schema{}}
	for i := range t.NumField() {
		field := t.Field(i)
		s, err := schemaOf(field.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t.Name(), field.Name, err)
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && options == "inline":
			for name, inner := range s.Properties {
				out.Properties[name] = inner
			}
			continue
		case t == reflect.TypeFor[v1alpha1.PriorityBand]():
			// A priority may be negative.
			s.Minimum = nil
		case t == reflect.TypeFor[v1alpha1.GroupArgs]() && name == "kinds":
			s.Items = &schema{Enum: v1alpha1.KnownKinds()}
		}
		out.Properties[name] = s
	}
	return out, nil
}

func words[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, word := range all {
		out[i] = string(word)
	}
	return out
}

// withArgs replaces the schema of a profile's arguments in values.schema.json. All other schemas in
// the file stay the same.
func withArgs(values []byte) ([]byte, error) {
	args, err := schemaOf(reflect.TypeFor[v1alpha1.ReprieveArgs]())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("write the schema of the arguments: %w", err)
	}
	const profiles, key = `"profiles": {`, `"args": `
	at := bytes.Index(values, []byte(profiles))
	if at < 0 {
		return nil, errors.New("it has no profiles")
	}
	first := bytes.Index(values[at:], []byte(key))
	if first < 0 {
		return nil, errors.New("its profiles have no args")
	}
	at += first + len(key)
	before := json.NewDecoder(bytes.NewReader(values[at:]))
	var old json.RawMessage
	if err := before.Decode(&old); err != nil {
		return nil, fmt.Errorf("read the args: %w", err)
	}
	var out bytes.Buffer
	all := append(append(append([]byte{}, values[:at]...), text...), values[at+int(before.InputOffset()):]...)
	if err := json.Indent(&out, bytes.TrimSpace(all), "", "  "); err != nil {
		return nil, fmt.Errorf("put the args in: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
