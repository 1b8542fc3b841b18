package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// operator is the module of the Prometheus Operator with its version. The go.mod files of this
// repository do not require it.
const operator = "github.com/prometheus-operator/prometheus-operator@v0.93.1"

// monitoringKinds returns the files of the operator's CustomResourceDefinitions for objects in the
// chart.
func monitoringKinds() []string {
	return []string{
		"monitoring.coreos.com_podmonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml", "monitoring.coreos.com_servicemonitors.yaml",
	}
}

// ofReprieve returns the schemas of Reprieve's kinds by file name. root is the directory of the
// repository.
func ofReprieve(root string) (map[string]document, error) {
	files, err := filepath.Glob(filepath.Join(root, "deploy", "crds", "reprieve.dev_*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there are no CustomResourceDefinitions (%w)", err)
	}
	return ofCustom(files)
}

// ofMonitoring returns the schemas of the kinds in monitoringKinds by file name.
func ofMonitoring() (map[string]document, error) {
	download := exec.Command("go", "mod", "download", "-json", operator)
	// Run the command outside of this module. Otherwise the go command applies this module's
	// go.mod.
	download.Dir = os.TempDir()
	raw, err := download.Output()
	var said struct{ Dir, Error string }
	if json.Unmarshal(raw, &said) == nil && said.Error != "" {
		return nil, fmt.Errorf("download %s: %s", operator, said.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", operator, err)
	}
	var files []string
	for _, name := range monitoringKinds() {
		files = append(files, filepath.Join(said.Dir, "example", "prometheus-operator-crd", name))
	}
	return ofCustom(files)
}

func ofCustom(files []string) (map[string]document, error) {
	out := map[string]document{}
	for _, file := range files {
		if err := addCustom(out, file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

// addCustom adds the schemas of a CustomResourceDefinition, one for each API version.
func addCustom(to map[string]document, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Group    string                `json:"group"`
			Names    struct{ Kind string } `json:"names"`
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return err
	}
	if len(crd.Spec.Versions) == 0 {
		return errors.New("it defines no version")
	}
	for _, version := range crd.Spec.Versions {
		kind := gvk{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
		to[kind.file()] = document{kind: kind.Kind, definitions: map[string]schema{
			kind.Kind: withoutStatus(strict(version.Schema.OpenAPIV3Schema)),
		}}
	}
	return nil
}
