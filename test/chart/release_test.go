package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// TestReleased loads and renders the packed chart of a release with Helm.
func TestReleased(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "reprieve-0.2.0.tgz")
	pack := exec.CommandContext(t.Context(), "go", "run", ".", "chart", "-root", "../..", "-out", file,
		"-version", "v0.2.0", "-commit", "0123abc", "-date", "1700000000", "-registry", "registry.example/reprieve")
	pack.Dir = filepath.Join("..", "..", "hack", "release")
	pack.Env = append(os.Environ(), "GOWORK=off")
	if output, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	c, err := loader.LoadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.Metadata.Version != "0.2.0" || c.Metadata.AppVersion != "0.2.0" {
		t.Errorf("it is version %s of %s", c.Metadata.Version, c.Metadata.AppVersion)
	}
	// The list of changes is empty right after a release.
	for _, list := range []string{"changes", "crds", "images", "links"} {
		var items []map[string]any
		if err := yaml.UnmarshalStrict([]byte(c.Metadata.Annotations["artifacthub.io/"+list]), &items); err != nil || len(items) == 0 && list != "changes" {
			t.Errorf("the annotation %s has %d items: %v", list, len(items), err)
		}
	}
	values, err := chartutil.ToRenderValues(c, nil, chartutil.ReleaseOptions{Name: "reprieve", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	const image = "image: \"registry.example/reprieve/reprieve-scheduler:v0.2.0\"\n"
	if deployment := files["reprieve/templates/deployment.yaml"]; !strings.Contains(deployment, image) {
		t.Errorf("it does not install the released image:\n%s", deployment)
	}
	if len(files["reprieve/templates/crds.yaml"]) == 0 {
		t.Error("it installs no CustomResourceDefinitions")
	}
}
