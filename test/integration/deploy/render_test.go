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

// manifests are rendered objects, in the order of kubectl apply -k.
type manifests []*unstructured.Unstructured

// deployPath returns a path under deploy/.
func deployPath(t *testing.T, elements ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{playgroundtest.ModuleRoot(t), "deploy"}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// render renders a directory as kubectl kustomize does.
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

// overlay renders a kustomization that adds to deploy/, as a user would write it.
func overlay(t *testing.T, extra string) manifests {
	t.Helper()
	// Kustomize accepts no absolute paths.
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

// find returns the one object of a kind and a name.
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

// ofKind returns the objects of one kind.
func (m manifests) ofKind(kind string) manifests {
	var out manifests
	for _, object := range m {
		if object.GetKind() == kind {
			out = append(out, object)
		}
	}
	return out
}

// typed returns an object as a Go type. Fields that the type does not have fail the test.
func typed[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, out, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return out
}
