package chart

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	chartDir  = "../../charts/reprieve"
	deployDir = "../../deploy"
	// namespace is the namespace of the objects in deploy/.
	namespace = "reprieve-system"
	queueKind = "reprieve.dev/v1alpha1/Queue"
)

// object is a rendered Kubernetes object.
type object map[string]any

// objects has rendered objects. The keys have the kind, namespace and name.
type objects map[string]object

// at returns the value of a field, given by its path, or nil if the object does not have the field.
func (o object) at(path ...string) any {
	var value any = map[string]any(o)
	for _, name := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[name]
	}
	return value
}

func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

func (o object) key() string {
	return strings.Join([]string{o.text("kind"), o.text("metadata", "namespace"), o.text("metadata", "name")}, " ")
}

func load(t *testing.T) *helmchart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cluster describes the cluster that the chart is rendered for: the namespace of the release, and
// the kinds that the API server serves.
type cluster struct {
	namespace string
	kinds     []string
}

// tryRender renders the chart for a cluster. The values are in YAML. It returns the text of each
// template's output.
func tryRender(t *testing.T, values string, on cluster) (map[string]string, error) {
	t.Helper()
	var given map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	c := load(t)
	capabilities := *chartutil.DefaultCapabilities
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, on.kinds)
	release := chartutil.ReleaseOptions{Name: "reprieve", Namespace: on.namespace, IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(c, given, release, &capabilities)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	out, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return out, nil
}

// render renders the chart for a cluster and returns the objects. On an error, the test fails.
func render(t *testing.T, values string, on cluster) objects {
	t.Helper()
	files, err := tryRender(t, values, on)
	if err != nil {
		t.Fatal(err)
	}
	out := objects{}
	separator := regexp.MustCompile(`(?m)^---\s*$`)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for _, text := range separator.Split(files[name], -1) {
			var o object
			if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if len(o) == 0 {
				continue
			}
			if out[o.key()] != nil {
				t.Errorf("%s has %s a second time", name, o.key())
			}
			out[o.key()] = o
		}
	}
	return out
}

// kustomized returns the objects of a kustomization, as kubectl kustomize renders them.
func kustomized(t *testing.T, dir string) objects {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	out := objects{}
	for _, resource := range rendered.Resources() {
		raw, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var o object
		if err := yaml.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		out[o.key()] = o
	}
	return out
}
