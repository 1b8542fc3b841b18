// Command frameworks writes the CustomResourceDefinitions of the frameworks that Reprieve supports,
// such as JobSet. The tests in test/integration/groups use them.
//
// The command reads each definition from the module of its framework, at a pinned version. It omits
// descriptions, which are most of the text, and all API versions except the supported one. The
// modules of the frameworks do not become dependencies of this repository's module.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// source locates one CRD: a module with its version, the file in the module, and the served API
// version.
type source struct{ module, version, file, served string }

func sources() []source {
	const ray = "github.com/ray-project/kuberay/ray-operator"
	return []source{
		{"sigs.k8s.io/jobset", "v0.10.1", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml", "v1alpha2"},
		{"sigs.k8s.io/lws", "v0.7.0", "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml", "v1"},
		{"github.com/kubeflow/trainer/v2", "v2.0.0", "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml", "v1alpha1"},
		{"github.com/kubeflow/training-operator", "v1.8.1", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml", "v1"},
		{"github.com/kubeflow/mpi-operator", "v0.6.0", "manifests/base/kubeflow.org_mpijobs.yaml", "v2beta1"},
		{ray, "v1.4.2", "config/crd/bases/ray.io_rayclusters.yaml", "v1"},
		{ray, "v1.4.2", "config/crd/bases/ray.io_rayjobs.yaml", "v1"},
		{"github.com/kubeflow/spark-operator/v2", "v2.4.0", "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml", "v1beta2"},
	}
}

func main() {
	out := flag.String("out", filepath.Join("test", "integration", "groups", "crds"), "The directory to write to.")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "frameworks:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	var page strings.Builder
	page.WriteString(`# CustomResourceDefinitions of frameworks

Only the tests use these files. Each file is a copy of a CustomResourceDefinition from the module of
its framework, under the license of the framework (Apache-2.0). Descriptions, and API versions that
Reprieve does not read, are removed.

` + "`go run ./hack/frameworks`" + ` writes the files and this page. To show a file, run
` + "`gunzip -c FILE | jq`" + `.

| file | module | version |
| --- | --- | --- |
`)
	for _, s := range sources() {
		name, err := s.write(out)
		if err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
		fmt.Fprintf(&page, "| `%s` | `%s` | %s |\n", name, s.module, s.version)
	}
	return os.WriteFile(filepath.Join(out, "README.md"), []byte(page.String()), 0o644)
}

// write writes one CRD to the directory out, and returns the name of the file.
func (s *source) write(out string) (string, error) {
	dir, err := download(s.module + "@" + s.version)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(s.file)))
	if err != nil {
		return "", err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return "", err
	}
	strip(crd)
	if err := s.keepServed(crd); err != nil {
		return "", err
	}
	raw, err := json.Marshal(crd)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := zip.Write(raw); err != nil {
		return "", err
	}
	if err := zip.Close(); err != nil {
		return "", err
	}
	name := strings.TrimSuffix(filepath.Base(s.file), ".yaml") + ".json.gz"
	return name, os.WriteFile(filepath.Join(out, name), packed.Bytes(), 0o644)
}

// download downloads and verifies a module with the go command, and returns its directory.
func download(module string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	// Run the command outside of this module. Otherwise the go command applies this module's
	// go.mod.
	cmd.Dir = os.TempDir()
	raw, err := cmd.Output()
	var said struct{ Dir, Error string }
	if json.Unmarshal(raw, &said) == nil && said.Error != "" {
		return "", fmt.Errorf("go mod download: %s", said.Error)
	}
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	return said.Dir, nil
}

// strip removes the descriptions from a schema. If the value of "description" is an object, it is
// the schema of a field with the name "description", so strip keeps it.
func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, isText := v["description"].(string); isText {
			delete(v, "description")
		}
		for _, below := range v {
			strip(below)
		}
	case []any:
		for _, below := range v {
			strip(below)
		}
	}
}

// keepServed removes all API versions from a CRD except the served one.
func (s *source) keepServed(crd map[string]any) error {
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	versions = slices.DeleteFunc(versions, func(v any) bool {
		version, _ := v.(map[string]any)
		return version["name"] != s.served
	})
	if len(versions) != 1 {
		return fmt.Errorf("it has %d versions %s", len(versions), s.served)
	}
	version, ok := versions[0].(map[string]any)
	if !ok {
		return fmt.Errorf("version %s is a %T", s.served, versions[0])
	}
	version["storage"] = true
	spec["versions"] = versions
	// Remove the conversion, because it needs the framework's webhook, which does not run in the
	// tests.
	delete(spec, "conversion")
	delete(crd, "status")
	return nil
}
