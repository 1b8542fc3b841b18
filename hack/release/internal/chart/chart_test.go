package chart

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/hack/release/internal/archive"
	"github.com/reprieve-dev/reprieve/hack/release/internal/changelog"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

func release(version string) *product.Release {
	return &product.Release{Version: version, Commit: "0123abc", Date: time.Unix(1, 0), Registry: "registry.example/reprieve"}
}

func changes() []changelog.Entry {
	return []changelog.Entry{{Kind: changelog.Added, Text: "A `thing`\n([docs/it.md](docs/it.md))."}, {Kind: changelog.Security, Text: "A hole."}}
}

// contentOf returns the content of a file in the released chart. It reads this repository's chart.
func contentOf(t *testing.T, r *product.Release, changes []changelog.Entry, name string) string {
	t.Helper()
	files, err := Files(r, os.DirFS("../../../../charts/reprieve"), changes, []string{"linux/amd64", "linux/arm64"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name == name {
			return string(f.Content)
		}
	}
	t.Fatalf("there is no %s", name)
	return ""
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	var got struct {
		APIVersion, Name, Version, AppVersion, KubeVersion, Home string
		Sources                                                  []string
		Annotations                                              map[string]string
	}
	if err := yaml.Unmarshal([]byte(contentOf(t, release("v0.2.0"), changes(), "reprieve/Chart.yaml")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != "0.2.0" || got.AppVersion != "0.2.0" || got.Name != "reprieve" || got.KubeVersion == "" {
		t.Errorf("it is %+v", got)
	}
	const page = "https://github.com/reprieve-dev/reprieve/blob/v0.2.0/"
	want := map[string]string{
		"license":                 "Apache-2.0",
		"prerelease":              "false",
		"containsSecurityUpdates": "true",
		"changes":                 "- description: A thing (docs/it.md).\n  kind: added\n- description: A hole.\n  kind: security\n",
		"images": "- image: registry.example/reprieve/reprieve-scheduler:v0.2.0\n  name: reprieve-scheduler\n" +
			"  platforms:\n  - linux/amd64\n  - linux/arm64\n",
		"links": "- name: Quick start\n  url: " + page + "docs/quickstart.md\n- name: Upgrade notes\n  url: " + page + "CHANGELOG.md\n" +
			"- name: API stability\n  url: " + page + "docs/stability.md\n",
	}
	for key, text := range want {
		if diff := cmp.Diff(text, got.Annotations["artifacthub.io/"+key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	var crds []crd
	if err := yaml.UnmarshalStrict([]byte(got.Annotations["artifacthub.io/crds"]), &crds); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range crds {
		names = append(names, c.Kind+" "+c.Version+" "+c.Name+" "+c.DisplayName)
		if c.Description == "" {
			t.Errorf("%s has no description", c.Kind)
		}
	}
	wantNames := []string{
		"CompositePodGroup v1alpha1 compositepodgroups.reprieve.dev Composite Pod Group",
		"PodGroup v1alpha1 podgroups.reprieve.dev Pod Group", "Queue v1alpha1 queues.reprieve.dev Queue", "Workload v1alpha1 workloads.reprieve.dev Workload",
	}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("CustomResourceDefinitions (-want +got):\n%s", diff)
	}
}

func TestPrerelease(t *testing.T) {
	t.Parallel()
	definition := contentOf(t, release("v0.2.0-rc.1"), changes()[:1], "reprieve/Chart.yaml")
	for _, want := range []string{`artifacthub.io/prerelease: "true"`, `artifacthub.io/containsSecurityUpdates: "false"`, "version: 0.2.0-rc.1\n"} {
		if !strings.Contains(definition, want) {
			t.Errorf("it lacks %s", want)
		}
	}
}

func TestImage(t *testing.T) {
	t.Parallel()
	var values struct {
		Image struct{ Repository, Tag string }
	}
	text := contentOf(t, release("v0.2.0"), nil, "reprieve/values.yaml")
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	if values.Image.Repository != "registry.example/reprieve/reprieve-scheduler" || values.Image.Tag != "v0.2.0" {
		t.Errorf("the image is %+v", values.Image)
	}
	page := contentOf(t, release("v0.2.0"), nil, "reprieve/README.md")
	for _, want := range []string{"`\"registry.example/reprieve/reprieve-scheduler\"`", "| `image.tag` | `\"v0.2.0\"` |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leaveOut, want string
	}{
		"no definitions": {"files/crds/it.yaml", "no CustomResourceDefinitions"},
		"no values":      {"values.yaml", "no values.yaml"},
		"no definition":  {"Chart.yaml", "no Chart.yaml"},
		"another image":  {"", "does not occur exactly once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fstest.MapFS{
				"Chart.yaml": {Data: []byte("name: reprieve\n")}, "values.yaml": {Data: []byte("image:\n  tag: dev\n")},
				"files/crds/it.yaml": {Data: []byte("kind: CustomResourceDefinition\n")},
				"README.md":          {Data: []byte("\n| `image.repository` | `\"reprieve-scheduler\"` |\n| `image.tag` | `\"dev\"` |\n")},
			}
			delete(dir, tc.leaveOut)
			_, err := Files(release("v0.2.0"), dir, nil, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestAllFiles checks that the release has all files of the chart, and that all are below one
// directory.
func TestAllFiles(t *testing.T) {
	t.Parallel()
	dir := os.DirFS("../../../../charts/reprieve")
	files, err := Files(release("v0.2.0"), dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]archive.File)
	for _, f := range files {
		got[f.Name] = f
	}
	for _, name := range []string{"README.md", "templates/_helpers.tpl", "values.schema.json", "files/crds/reprieve.dev_queues.yaml", "monitoring/dashboard.json"} {
		if len(got["reprieve/"+name].Content) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	dir := fstest.MapFS{
		".helmignore": {Data: []byte("*.tgz\n# For tests.\ntests/\n")}, "old.tgz": {}, "tests/it.yaml": {}, "templates/tests": {}, "kept.yaml": {},
		"Chart.yaml":  {Data: []byte("name: reprieve\n")},
		"values.yaml": {Data: []byte("image:\n  repository: reprieve-scheduler\n  tag: dev\n")}, "files/crds/it.yaml": {Data: []byte("kind: CustomResourceDefinition\n")},
		"README.md": {Data: []byte("\n| `image.repository` | `\"reprieve-scheduler\"` |\n| `image.tag` | `\"dev\"` |\n")},
	}
	files, err := Files(release("v0.2.0"), dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, strings.TrimPrefix(f.Name, "reprieve/"))
	}
	want := []string{"Chart.yaml", "README.md", "files/crds/it.yaml", "kept.yaml", "templates/tests", "values.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	dir[".helmignore"].Data = []byte("templates/tests\n")
	if _, err := Files(release("v0.2.0"), dir, nil, nil); err == nil || !strings.Contains(err.Error(), "more than a name") {
		t.Errorf("got %v", err)
	}
}
