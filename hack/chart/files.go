package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// filesDir is where the chart has its copies.
const filesDir = "files"

// templated are the resources of deploy/ that the chart has templates for, since values reach into
// them.
func templated() []string { return []string{"deployment.yaml", "resourcequota.yaml"} }

// filesOf are the files that the chart has from deploy/, by their paths in the chart.
func filesOf(deploy string) (map[string][]byte, error) {
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := decode(filepath.Join(deploy, "kustomization.yaml"), &kustomization); err != nil {
		return nil, err
	}
	from := map[string]string{}
	for _, resource := range kustomization.Resources {
		if filepath.Ext(resource) == ".yaml" && !slices.Contains(templated(), resource) {
			from[resource] = filepath.Join(deploy, resource)
		}
	}
	crds, err := filepath.Glob(filepath.Join(deploy, "crds", "reprieve.dev_*.yaml"))
	if err != nil || len(crds) == 0 {
		return nil, fmt.Errorf("%s has no CustomResourceDefinitions (%w)", deploy, err)
	}
	for _, crd := range crds {
		from["crds/"+filepath.Base(crd)] = crd
	}
	out := map[string][]byte{}
	for name, path := range from {
		if out[name], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read the chart's copies of deploy/: %w", err)
		}
	}
	out["components/native-workload-rules.yaml"], err = addedRules(filepath.Join(deploy, "components", "native-workload-api"))
	return out, err
}

// addedRules are the rules that a component adds to the scheduler's ClusterRole.
func addedRules(component string) ([]byte, error) {
	var kustomization struct {
		Patches []struct {
			Patch string `json:"patch"`
		} `json:"patches"`
	}
	path := filepath.Join(component, "kustomization.yaml")
	if err := decode(path, &kustomization); err != nil {
		return nil, err
	}
	var rules []any
	for _, p := range kustomization.Patches {
		var operations []struct {
			Op, Path string
			Value    any
		}
		if err := yaml.Unmarshal([]byte(p.Patch), &operations); err != nil {
			return nil, fmt.Errorf("%s: read a patch: %w", path, err)
		}
		for _, o := range operations {
			if o.Op != "add" || o.Path != "/rules/-" {
				return nil, fmt.Errorf("%s: the patch has %q at %q; the chart can only add rules", path, o.Op, o.Path)
			}
			rules = append(rules, o.Value)
		}
	}
	out, err := yaml.Marshal(rules)
	if err != nil {
		return nil, fmt.Errorf("%s: write its rules: %w", path, err)
	}
	return out, nil
}

func decode(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read a kustomization: %w", err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
