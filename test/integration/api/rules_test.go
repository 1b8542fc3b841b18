package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// TestEveryRuleHasCases checks the cases of TestValidation. It changes one rule of a CRD at a time,
// and requires that the result of at least one case changes:
//
//   - If a rule is missing, or a bound is too wide by one, an invalid object must be accepted.
//   - If a rule is stricter, a valid object must be rejected.
//
// The test calls the API server's validation code directly.
func TestEveryRuleHasCases(t *testing.T) {
	t.Parallel()
	for kind, cases := range allCases() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			schema := schemaOf(t, kind)
			for title, got := range verdicts(t, kind, schema, cases) {
				if want := cases[title].want; got != want {
					t.Errorf("%s: the judge is not the API server\n got: %s\nwant: %s", title, got, want)
				}
			}
			wantNoticed(t, kind, schema, cases, expressionMutants)
			// Remove the CEL rules before the other rules are tested, because their compilation
			// takes most of the time.
			withoutExpressions := runtime.DeepCopyJSON(schema)
			eachSchema("", withoutExpressions, func(_ string, schema map[string]any) { delete(schema, expressions) })
			wantNoticed(t, kind, withoutExpressions, cases, keywordMutants)
		})
	}
}

// wantNoticed checks that each mutant of a schema changes the result of at least one case.
func wantNoticed(t *testing.T, kind string, schema map[string]any, cases map[string]validationCase, mutantsOf func(string, map[string]any) []mutant) {
	t.Helper()
	before := verdicts(t, kind, schema, cases)
	var mutants []mutant
	eachSchema("", schema, func(at string, schema map[string]any) { mutants = append(mutants, mutantsOf(at, schema)...) })
	if len(mutants) == 0 {
		t.Error("there is nothing to change")
	}
	for _, m := range mutants {
		undo := m.apply()
		after := newJudge(t, kind, schema)
		noticed := slices.ContainsFunc(m.likely(cases), func(title string) bool {
			tc := cases[title]
			return (tc.want == "") == m.stricter && after.verdict(t, tc) != before[title]
		})
		undo()
		if !noticed {
			t.Errorf("no case would notice %s", m.name)
		}
	}
}

// A mutant is a change of one rule. If stricter is true, a valid object must be rejected. Otherwise
// an invalid object must be accepted, or be rejected with another message.
type mutant struct {
	name     string
	stricter bool
	apply    func() (undo func())
}

// likely returns the titles of the cases, sorted so that the cases that probably notice the mutant
// come first. Cases about the mutant's field precede other cases, and short cases precede long
// cases.
func (m mutant) likely(cases map[string]validationCase) []string {
	at, _, _ := strings.Cut(m.name, ":")
	field := strings.TrimSuffix(at[strings.LastIndex(at, ".")+1:], "[]")
	rank := make(map[string]int, len(cases))
	for title, tc := range cases {
		rank[title] = len(tc.create) + len(tc.had) + len(tc.update) + len(tc.status)
		if !strings.Contains(tc.create, field) && !strings.Contains(tc.update, field) && !strings.Contains(tc.status, field) {
			rank[title] += 1 << 30
		}
	}
	return slices.SortedFunc(maps.Keys(cases), func(a, b string) int { return cmp.Compare(rank[a], rank[b]) })
}

// bounds maps a keyword to the number that makes the bound wider by one if it is added.
var bounds = map[string]float64{
	"minLength": -1, "maxLength": 1, "minimum": -1, "maximum": 1, "minItems": -1, "maxItems": 1, "minProperties": -1, "maxProperties": 1,
}

// ofOthers reports whether a part of a schema is not tested. The argument at is the path of the
// part. Kubernetes defines metadata, and the scheduler writes most parts of the status from Go
// types.
func ofOthers(at string) bool {
	return at == ".metadata" || strings.HasPrefix(at, ".status.") && !strings.HasPrefix(at, ".status.disruption")
}

// expressions is the keyword for CEL rules.
const expressions = "x-kubernetes-validations"

// eachSchema calls visit for a schema and all schemas below it, except the parts in ofOthers.
func eachSchema(at string, schema map[string]any, visit func(at string, schema map[string]any)) {
	if ofOthers(at) {
		return
	}
	visit(at, schema)
	for _, key := range []string{"items", "additionalProperties"} {
		if below, ok := schema[key].(map[string]any); ok {
			eachSchema(at+"[]", below, visit)
		}
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if below, ok := properties[name].(map[string]any); ok {
			eachSchema(at+"."+name, below, visit)
		}
	}
}

// keywordMutants returns the mutants of a schema for all keywords except CEL rules.
func keywordMutants(at string, schema map[string]any) []mutant {
	var out []mutant
	add := func(stricter bool, key, what string, value any) {
		out = append(out, mutant{
			name: fmt.Sprintf("%s: %s, %s", at, key, what), stricter: stricter,
			apply: func() func() { return replace(schema, key, value) },
		})
	}
	for _, key := range slices.Sorted(maps.Keys(bounds)) {
		if bound, ok := schema[key].(float64); ok {
			add(false, key, fmt.Sprintf("%v in place of %v", bound+bounds[key], bound), bound+bounds[key])
			add(true, key, fmt.Sprintf("%v in place of %v", bound-bounds[key], bound), bound-bounds[key])
		}
	}
	if pattern, ok := schema["pattern"]; ok {
		add(false, "pattern", fmt.Sprintf("without %v", pattern), nil)
		add(true, "pattern", "that nothing matches", `^\b$`)
	}
	if format, ok := schema["format"]; ok {
		add(false, "format", fmt.Sprintf("without %v", format), nil)
	}
	if schema["x-kubernetes-list-type"] == "map" {
		add(false, "x-kubernetes-list-type", "any list", "atomic")
	}
	for i, name := range list(schema["required"]) {
		add(false, "required", fmt.Sprintf("without %v", name), slices.Delete(slices.Clone(list(schema["required"])), i, i+1))
	}
	if values := list(schema["enum"]); len(values) > 0 {
		add(false, "enum", "any value", nil)
		for i, value := range values {
			add(true, "enum", fmt.Sprintf("without %v", value), slices.Delete(slices.Clone(values), i, i+1))
		}
	}
	return out
}

// expressionMutants returns two mutants for each CEL rule of a schema: one removes the rule, and
// one makes it reject all objects.
func expressionMutants(at string, schema map[string]any) []mutant {
	var out []mutant
	rules := list(schema[expressions])
	for i := range rules {
		rule, ok := rules[i].(map[string]any)
		if !ok {
			continue
		}
		never := "false"
		if text, ok := rule["rule"].(string); ok && strings.Contains(text, "oldSelf") {
			// The expression must mention oldSelf, so that the API server still evaluates it only
			// for updates.
			never = "oldSelf == self ? false : false"
		}
		name := fmt.Sprintf("%s: %s", at, rule["rule"])
		out = append(out,
			mutant{name: name + ", taken away", apply: func() func() {
				return replace(schema, expressions, slices.Delete(slices.Clone(rules), i, i+1))
			}},
			mutant{name: name + ", never true", stricter: true, apply: func() func() {
				undoMessage := replace(rule, "messageExpression", nil)
				undoRule := replace(rule, "rule", never)
				return func() { undoRule(); undoMessage() }
			}})
	}
	return out
}

// replace sets a key of a schema, or deletes the key if value is nil. undo restores the old value.
func replace(in map[string]any, key string, value any) (undo func()) {
	old, had := in[key]
	if value == nil {
		delete(in, key)
	} else {
		in[key] = value
	}
	return func() {
		if had {
			in[key] = old
		} else {
			delete(in, key)
		}
	}
}

func list(value any) []any {
	if out, ok := value.([]any); ok {
		return out
	}
	return nil
}

// schemaOf returns the schema in the CRD file of a kind.
func schemaOf(t *testing.T, kind string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "deploy", "crds", v1alpha1.GroupName+"_"+strings.ToLower(kind)+"s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := map[string]any{}
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	versions, found, err := unstructured.NestedSlice(crd, "spec", "versions")
	if err != nil || !found || len(versions) != 1 {
		t.Fatalf("%d versions of %s, want 1: %v", len(versions), kind, err)
	}
	version, ok := versions[0].(map[string]any)
	if !ok {
		t.Fatalf("the version is a %T", versions[0])
	}
	schema, found, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	if err != nil || !found {
		t.Fatalf("%s has no schema: %v", kind, err)
	}
	return schema
}

// strategy has the API server's functions that validate an object.
type strategy interface {
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

// A judge validates objects of one kind like an API server. The schema may differ from the schema
// in the CRD file.
type judge struct {
	kind       string
	structural *structuralschema.Structural
	main       strategy
	status     strategy
}

func newJudge(t *testing.T, kind string, schema map[string]any) *judge {
	t.Helper()
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var versioned apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(raw, &versioned); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&versioned, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	whole, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	statusSchema := internal.Properties["status"]
	status, _, err := validation.NewSchemaValidator(&statusSchema)
	if err != nil {
		t.Fatal(err)
	}
	main := customresource.NewStrategy(nil, kind != "Queue", v1alpha1.SchemeGroupVersion.WithKind(kind), whole, status, structural,
		&apiextensions.CustomResourceSubresourceStatus{}, nil, nil)
	return &judge{kind: kind, structural: structural, main: main, status: customresource.NewStatusStrategy(main)}
}

// verdicts returns the message of each case with a schema, by title of the case.
func verdicts(t *testing.T, kind string, schema map[string]any, cases map[string]validationCase) map[string]string {
	t.Helper()
	j := newJudge(t, kind, schema)
	out := make(map[string]string, len(cases))
	for title, tc := range cases {
		out[title] = j.verdict(t, tc)
	}
	return out
}

// verdict returns the message of a case, or "" if the API server accepts all its requests.
func (j *judge) verdict(t *testing.T, tc validationCase) string {
	t.Helper()
	obj := j.decoded(t, object(t, j.kind, tc.create))
	errs := j.main.Validate(t.Context(), obj)
	for _, change := range []struct {
		field, text string
		strategy    strategy
	}{{"status", tc.had, j.status}, {"spec", tc.update, j.main}, {"status", tc.status, j.status}} {
		if change.text == "" || len(errs) > 0 {
			continue
		}
		old := obj
		obj = old.DeepCopy()
		obj.Object[change.field] = fields(t, change.text)
		obj = j.decoded(t, obj)
		errs = change.strategy.ValidateUpdate(t.Context(), obj, old)
	}
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}

// decoded converts an object to the form that the API server validates, with default values.
func (j *judge) decoded(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	obj.SetResourceVersion("1")
	raw, err := json.Marshal(obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(out, j.structural)
	defaulting.Default(out, j.structural)
	return &unstructured.Unstructured{Object: out}
}
