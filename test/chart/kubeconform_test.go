package chart

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// conform runs kubeconform on objects and returns its output. It uses the schemas that hack/schemas
// writes. An object of a kind without a schema is an error.
func conform(t *testing.T, given objects) (string, error) {
	t.Helper()
	args := []string{"tool", "-modfile=../../hack/tools/kubeconform/go.mod", "kubeconform", "-strict", "-summary"}
	for _, source := range []string{"kubernetes", "reprieve", "monitoring"} {
		args = append(args, "-schema-location", "schemas/"+source+"/{{.ResourceKind}}{{.KindSuffix}}.json")
	}
	var input bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(given)) {
		raw, err := json.Marshal(given[key])
		if err != nil {
			t.Fatal(err)
		}
		input.WriteString("---\n" + string(raw) + "\n")
	}
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Stdin = &input
	output, err := command.CombinedOutput()
	return string(output), err
}

// TestConforms checks the rendered objects against the schemas of their kinds. One case sets every
// value that adds an object or a field.
func TestConforms(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"default": "", "everything": everything, "pod monitor": "podMonitor: {enabled: true, tokenSecret: {name: scraper}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if output, err := conform(t, render(t, values, cluster{namespace: namespace, kinds: []string{queueKind}})); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

// TestDoesNotConform checks that the schemas reject unknown fields, and that kubeconform uses only
// the schemas in this folder.
func TestDoesNotConform(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values, object string
		field          []string
		to             any
		want           string
	}{
		"a field of Kubernetes that does not exist": {"", "Deployment reprieve-system reprieve-scheduler", []string{"spec", "template", "spec", "schedulerNames"}, "a", "schedulerNames"},
		"a field of another type":                   {"", "Deployment reprieve-system reprieve-scheduler", []string{"spec", "replicas"}, "2", "replicas"},
		"a field of ours that does not exist":       {"queues: [{name: a, spec: {parent: b}}]", "Queue  a", []string{"spec", "quotas"}, map[string]any{}, "quotas"},
		"a field of a monitor that does not exist":  {"serviceMonitor: {enabled: true}", "ServiceMonitor reprieve-system reprieve-scheduler", []string{"spec", "endpoint"}, "a", "endpoint"},
		"a kind that has no schema":                 {"", "Service reprieve-system reprieve-scheduler", []string{"kind"}, "Server", "could not find schema for Server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := render(t, c.values, cluster{namespace: namespace, kinds: []string{queueKind}})[c.object]
			if o == nil {
				t.Fatalf("there is no %s", c.object)
			}
			last := len(c.field) - 1
			o.at(c.field[:last]...).(map[string]any)[c.field[last]] = c.to
			output, err := conform(t, objects{c.object: o})
			if err == nil || !strings.Contains(output, c.want) {
				t.Errorf("error %v, want one with %q:\n%s", err, c.want, output)
			}
		})
	}
}
