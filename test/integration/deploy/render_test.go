package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// manifests has rendered objects in the order in which kubectl apply -k creates them.
type manifests []*unstructured.Unstructured

// deployPath returns the absolute path of a file or directory in deploy/.
func deployPath(t *testing.T, elements ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{playgroundtest.ModuleRoot(t), "deploy"}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// render returns the objects of a kustomization, as kubectl kustomize renders them.
func render(t *testing.T, dir string) manifests {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("render %s: %v", dir, err)
	}
	var out manifests
	for _, resource := range rendered.Resources() {
		raw, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &object.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, object)
	}
	return out
}

// overlay returns the objects of a kustomization that a user could write: deploy/ with additional
// lines.
func overlay(t *testing.T, extra string) manifests {
	t.Helper()
	// Kustomize accepts only relative paths. Resolve symbolic links first, so that the relative
	// path is correct.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.EvalSymlinks(deployPath(t))
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	content := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + relative + "]\n" +
		os.Expand(extra, func(string) string { return relative })
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return render(t, dir)
}

// find returns the object with a kind and a name. The test fails unless there is exactly one.
func (m manifests) find(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	for _, object := range m {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}
		if found != nil {
			t.Fatalf("there are two of %s %s", kind, name)
		}
		found = object
	}
	if found == nil {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return found
}

func (m manifests) ofKind(kind string) manifests {
	var out manifests
	for _, object := range m {
		if object.GetKind() == kind {
			out = append(out, object)
		}
	}
	return out
}

// typed converts an object to a Go type. The test fails if the object has an unknown field.
func typed[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, out, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return out
}
