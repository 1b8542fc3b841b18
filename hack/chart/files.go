package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// filesDir is the folder of the chart with the copies of files from deploy/.
const filesDir = "files"

// templated lists the resources of deploy/ that depend on values of the chart. The chart has
// templates for these resources, so they are not copied.
func templated() []string { return []string{"deployment.yaml", "resourcequota.yaml"} }

// filesOf returns the files that the chart copies from deploy/. It maps the path in the chart to
// the content.
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
	return out, addComponent(out, filepath.Join(deploy, "components", "native-workload-api"))
}

// addComponent adds the files for a kustomize component of deploy/ to out: copies of its resources,
// and the resource rules that its patches add.
func addComponent(out map[string][]byte, component string) error {
	var kustomization struct {
		Resources []string `json:"resources"`
		Patches   []patch  `json:"patches"`
	}
	path := filepath.Join(component, "kustomization.yaml")
	if err := decode(path, &kustomization); err != nil {
		return err
	}
	for _, resource := range kustomization.Resources {
		text, err := os.ReadFile(filepath.Join(component, resource))
		if err != nil {
			return fmt.Errorf("read the chart's copies of a component: %w", err)
		}
		out["components/native-workload-"+resource] = text
	}
	rules, err := addedRules(kustomization.Patches)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for name, list := range map[string]any{"rules": rules.role, "resources": rules.policies} {
		text, err := yaml.Marshal(list)
		if err != nil {
			return fmt.Errorf("%s: write its %s: %w", path, name, err)
		}
		out["components/native-workload-"+name+".yaml"] = text
	}
	return nil
}

// patch is an element of "patches" in a kustomization: a JSON patch and its target.
type patch struct {
	Target struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"target"`
	Patch string `json:"patch"`
}

// ruleOfPolicies is a resource rule for some admission policies. Policies is a regular expression
// that matches the whole name of an admission policy.
type ruleOfPolicies struct {
	Policies string `json:"policies"`
	Rule     any    `json:"rule"`
}

// rulesOfComponent has the rules that a component adds: to the scheduler's ClusterRole, and to
// admission policies.
type rulesOfComponent struct {
	role     []any
	policies []ruleOfPolicies
}

// addedRules returns the rules that patches add. It returns an error if a patch does anything else
// than add a rule.
func addedRules(patches []patch) (rulesOfComponent, error) {
	var out rulesOfComponent
	for _, p := range patches {
		var operations []struct {
			Op, Path string
			Value    any
		}
		if err := yaml.Unmarshal([]byte(p.Patch), &operations); err != nil {
			return out, fmt.Errorf("read a patch: %w", err)
		}
		for _, o := range operations {
			switch at := p.Target.Kind + o.Path; {
			case o.Op == "add" && at == "ClusterRole/rules/-":
				out.role = append(out.role, o.Value)
			case o.Op == "add" && at == "ValidatingAdmissionPolicy/spec/matchConstraints/resourceRules/-":
				out.policies = append(out.policies, ruleOfPolicies{Policies: "^(" + p.Target.Name + ")$", Rule: o.Value})
			default:
				return out, fmt.Errorf("the patch of a %s has %q at %q; the chart can only add rules", p.Target.Kind, o.Op, o.Path)
			}
		}
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
