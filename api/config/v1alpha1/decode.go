package v1alpha1

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Decode reads the arguments that a scheduler hands to the plugin's factory: nil for none, or what it found under
// pluginConfig, as JSON or YAML. Defaults are filled in. The error names the field that is unknown or invalid.
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
	// What they say of themselves has to be right where it is said.
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

// unmarshalStrict reads JSON or YAML. Names of fields are compared as they are written.
func unmarshalStrict(raw []byte, args *ReprieveArgs) error {
	asJSON, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		// What the YAML package has to say stands on several lines.
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	strict, err := json.UnmarshalStrict(asJSON, args)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if len(strict) > 0 {
		return strict[0]
	}
	return nil
}
