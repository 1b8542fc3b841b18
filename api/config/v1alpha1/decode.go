package v1alpha1

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Decode reads the arguments that a scheduler passes to the plugin's factory. obj is nil, a
// *ReprieveArgs, or a *runtime.Unknown with the content of pluginConfig as JSON or YAML. Decode
// fills in the defaults. The error names the field that is unknown or invalid.
func Decode(obj runtime.Object) (*ReprieveArgs, error) {
	args := &ReprieveArgs{}
	switch given := obj.(type) {
	case nil:
	case *ReprieveArgs:
		args = given.DeepCopy()
	case *runtime.Unknown:
		if err := unmarshalStrict(given.Raw, args); err != nil {
			return nil, fmt.Errorf("args: %w", err)
		}
	default:
		return nil, fmt.Errorf("args: want a %s, got a %T", Kind, obj)
	}
	fill := *args
	SetDefaults(args)
	// The arguments may omit apiVersion and kind. Validate checks given values.
	if fill.APIVersion != "" {
		args.APIVersion = fill.APIVersion
	}
	if fill.Kind != "" {
		args.Kind = fill.Kind
	}
	if errs := Validate(args); len(errs) > 0 {
		return nil, fmt.Errorf("args: %w", errs.ToAggregate())
	}
	return args, nil
}

// unmarshalStrict reads JSON or YAML. The comparison of field names is case-sensitive.
func unmarshalStrict(raw []byte, args *ReprieveArgs) error {
	asJSON, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		// Errors of the YAML package have several lines. Return them as one line.
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	strict, err := json.UnmarshalStrict(asJSON, args)
	if err != nil {
		return fieldError(asJSON, reflect.TypeFor[ReprieveArgs](), nil, err)
	}
	if len(strict) > 0 {
		return strict[0]
	}
	return nil
}

// fieldError returns an error that names the field of an unreadable value. raw is the value of the
// type in, and at is its path. The decoders of some types, such as durations, return errors without
// the field.
func fieldError(raw []byte, in reflect.Type, at *field.Path, err error) error {
	for in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	values := make(map[string]stdjson.RawMessage)
	if in.Kind() == reflect.Struct && stdjson.Unmarshal(raw, &values) == nil {
		for i := range in.NumField() {
			f := in.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			value, path := raw, at
			if name != "" {
				value, path = values[name], at.Child(name)
			}
			if len(value) == 0 {
				continue
			}
			if err := json.UnmarshalCaseSensitivePreserveInts(value, reflect.New(f.Type).Interface()); err != nil {
				return fieldError(value, f.Type, path, err)
			}
		}
	}
	if at == nil {
		return fmt.Errorf("read: %w", err)
	}
	return fmt.Errorf("%s: %w", at, err)
}
