package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kinds returns the Kubernetes kinds that the chart can contain.
func kinds() []gvk {
	const (
		admission  = "admissionregistration.k8s.io"
		extensions = "apiextensions.k8s.io"
		flow       = "flowcontrol.apiserver.k8s.io"
		rbac       = "rbac.authorization.k8s.io"
	)
	return []gvk{
		{"", "v1", "ConfigMap"}, {"", "v1", "Namespace"}, {"", "v1", "ResourceQuota"}, {"", "v1", "Service"}, {"", "v1", "ServiceAccount"},
		{admission, "v1", "ValidatingAdmissionPolicy"}, {admission, "v1", "ValidatingAdmissionPolicyBinding"},
		{extensions, "v1", "CustomResourceDefinition"},
		{"apps", "v1", "Deployment"},
		{flow, "v1", "FlowSchema"}, {flow, "v1", "PriorityLevelConfiguration"},
		{"networking.k8s.io", "v1", "NetworkPolicy"},
		{"policy", "v1", "PodDisruptionBudget"},
		{rbac, "v1", "ClusterRole"}, {rbac, "v1", "ClusterRoleBinding"}, {rbac, "v1", "Role"}, {rbac, "v1", "RoleBinding"},
	}
}

// quantity is the name of the definition of a quantity. The OpenAPI document declares a string, but
// the API server also accepts a number.
const quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"

// ofKubernetes returns the schemas of Kubernetes kinds by file name. They come from the version of
// k8s.io/kubernetes in the go.mod of root.
func ofKubernetes(root string) (map[string]document, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	list.Dir = root
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("find the module k8s.io/kubernetes: %w", err)
	}
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "api", "openapi-spec", "swagger.json"))
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	var swagger struct {
		Definitions map[string]schema `json:"definitions"`
	}
	if err := json.Unmarshal(raw, &swagger); err != nil {
		return nil, fmt.Errorf("the OpenAPI document: %w", err)
	}
	out := map[string]document{}
	for _, kind := range kinds() {
		d, err := documentOf(kind, swagger.Definitions)
		if err != nil {
			return nil, err
		}
		out[kind.file()] = d
	}
	return out, nil
}

// documentOf returns the definition of a kind, with all definitions that it refers to directly or
// indirectly.
func documentOf(kind gvk, definitions map[string]schema) (document, error) {
	root := ""
	for name, definition := range definitions {
		if slices.Contains(kindsOf(definition), kind) {
			root = name
		}
	}
	if root == "" {
		return document{}, fmt.Errorf("no definition is of %+v", kind)
	}
	out := document{kind: root, definitions: map[string]schema{}}
	for missing := []string{root}; len(missing) > 0; missing = missing[1:] {
		name := missing[0]
		if _, done := out.definitions[name]; done {
			continue
		}
		definition := strict(definitions[name])
		switch name {
		case root:
			definition = withoutStatus(definition)
		case quantity:
			definition["type"] = []string{"number", "string"}
		}
		out.definitions[name] = definition
		missing = append(missing, references(definition)...)
	}
	return out, nil
}

func kindsOf(definition schema) []gvk {
	raw, err := json.Marshal(definition["x-kubernetes-group-version-kind"])
	if err != nil {
		return nil
	}
	var out []gvk
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil
	}
	return out
}
