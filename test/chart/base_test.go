package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	keepAnnotation     = "helm.sh/resource-policy"
	checksumAnnotation = "checksum/config"
)

// alike removes the intended differences between the objects that kustomize renders and the objects
// that the chart renders:
//
//   - Kustomize and the chart both replace the Pods when the configuration changes. Kustomize
//     appends a hash to the name of the ConfigMap; the chart adds a checksum to the Pods' template.
//   - Only the chart annotates CustomResourceDefinitions, so that Helm does not delete them.
//   - The texts of the configuration differ, so their parsed contents are compared.
func alike(t *testing.T, all objects) objects {
	t.Helper()
	out := objects{}
	hash := regexp.MustCompile(`^(reprieve-scheduler-config)-[a-z0-9]{10}$`)
	for _, o := range all {
		switch o.text("kind") {
		case "ConfigMap":
			metadata := o["metadata"].(map[string]any)
			metadata["name"] = hash.ReplaceAllString(o.text("metadata", "name"), "$1")
			data := o["data"].(map[string]any)
			var config any
			if err := yaml.UnmarshalStrict([]byte(o.text("data", "scheduler.yaml")), &config); err != nil {
				t.Fatalf("%s: %v", o.key(), err)
			}
			data["scheduler.yaml"] = config
		case "Deployment":
			metadata := o.at("spec", "template", "metadata").(map[string]any)
			without(metadata, checksumAnnotation)
			for _, v := range o.at("spec", "template", "spec", "volumes").([]any) {
				source := v.(map[string]any)["configMap"].(map[string]any)
				source["name"] = hash.ReplaceAllString(source["name"].(string), "$1")
			}
		case "CustomResourceDefinition":
			without(o["metadata"].(map[string]any), keepAnnotation)
		}
		out[o.key()] = o
	}
	return out
}

// without removes an annotation from the metadata of an object.
func without(metadata map[string]any, annotation string) {
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, annotation)
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

// TestDefaultIsBase checks that the chart with default values installs the objects of kubectl apply
// -k deploy/. Only the Namespace is missing, because it must exist before Helm installs a chart.
func TestDefaultIsBase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values, base string
		leftOut      string
	}{
		"default":        {"", deployDir, "Namespace  " + namespace},
		"with namespace": {"namespace: {create: true}", deployDir, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := alike(t, kustomized(t, c.base))
			if len(want) < 20 {
				t.Fatalf("deploy/ has %d objects only", len(want))
			}
			delete(want, c.leftOut)
			if diff := cmp.Diff(want, alike(t, render(t, c.values, cluster{namespace: namespace}))); diff != "" {
				t.Errorf("the chart is not what deploy/ is (-deploy +chart):\n%s", diff)
			}
		})
	}
}

// TestComponents checks that some values of the chart have the same effect as components of
// deploy/.
func TestComponents(t *testing.T) {
	t.Parallel()
	for component, values := range map[string]string{
		"control-plane":       "onControlPlane: true",
		"native-workload-api": "nativeWorkloadAPI: true",
	} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			want := alike(t, kustomized(t, overlay(t, component)))
			got := alike(t, render(t, values+"\nnamespace: {create: true}", cluster{namespace: namespace}))
			// Kustomize adds its labels to the objects of the base, and not to new objects of a
			// component. The chart labels all objects. So remove the labels that only the chart
			// adds.
			for key, o := range want {
				if o.at("metadata", "labels") == nil && got[key] != nil {
					delete(got[key]["metadata"].(map[string]any), "labels")
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-component +chart):\n%s", diff)
			}
		})
	}
}

// overlay writes a kustomization with deploy/ and a component, as users would, and returns its
// directory.
func overlay(t *testing.T, component string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Abs(deployDir)
	if err != nil {
		t.Fatal(err)
	}
	base, err = filepath.EvalSymlinks(base)
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	content := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + relative + "]\n" +
		"components: [" + relative + "/components/" + component + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
