package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/hack/release/internal/archive"
	"github.com/reprieve-dev/reprieve/hack/release/internal/changelog"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

const (
	name       = "reprieve"
	definition = "Chart.yaml"
	values     = "values.yaml"
	page       = "README.md"
	ignore     = ".helmignore"
	crdDir     = "files/crds"
)

// FileName returns the file name of the packed chart.
func FileName(r *product.Release) string { return name + "-" + r.Number() + ".tgz" }

// Files returns the files of the released chart. dir is the directory of the chart in the
// repository.
func Files(r *product.Release, dir fs.FS, changes []changelog.Entry, platforms []string) ([]archive.File, error) {
	var out []archive.File
	left, err := readIgnored(dir)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(dir, ".", func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case left.has(entry) && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir() || left.has(entry) || at == ignore:
			return nil
		}
		content, err := fs.ReadFile(dir, at)
		if err != nil {
			return err
		}
		out = append(out, archive.File{Name: path.Join(name, at), Mode: 0o644, Content: content})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	definitions, err := crds(dir)
	if err != nil {
		return nil, err
	}
	edits := map[string]func([]byte) ([]byte, error){
		definition: func(raw []byte) ([]byte, error) { return released(raw, r, definitions, changes, platforms) },
	}
	for file, words := range replaced(r) {
		edits[file] = func(raw []byte) ([]byte, error) { return replace(raw, words) }
	}
	for _, file := range slices.Sorted(maps.Keys(edits)) {
		i := slices.IndexFunc(out, func(f archive.File) bool { return f.Name == path.Join(name, file) })
		if i < 0 {
			return nil, fmt.Errorf("the chart has no %s", file)
		}
		if out[i].Content, err = edits[file](out[i].Content); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

// replaced maps a file of the chart to its replacements. The key of a replacement is a text in the
// repository, and the value is the text in the release. Each key must occur exactly once in the
// file.
func replaced(r *product.Release) map[string]map[string]string {
	repository := r.Registry + "/" + product.Scheduler
	return map[string]map[string]string{
		values: {
			"\n  repository: " + product.Scheduler + "\n": "\n  repository: " + repository + "\n",
			"\n  tag: dev\n": "\n  tag: " + r.Version + "\n",
		},
		// The page has a table with the default values.
		page: {
			"\n| `image.repository` | `\"" + product.Scheduler + "\"` |": "\n| `image.repository` | `\"" + repository + "\"` |",
			"\n| `image.tag` | `\"dev\"` |":                              "\n| `image.tag` | `\"" + r.Version + "\"` |",
		},
	}
}

func replace(raw []byte, words map[string]string) ([]byte, error) {
	for _, old := range slices.Sorted(maps.Keys(words)) {
		if bytes.Count(raw, []byte(old)) != 1 {
			return nil, fmt.Errorf("%q does not occur exactly once", strings.TrimSpace(old))
		}
		raw = bytes.Replace(raw, []byte(old), []byte(words[old]), 1)
	}
	return raw, nil
}

// These types have the fields of annotations that Artifact Hub reads.
type (
	crd struct {
		Kind        string `json:"kind"`
		Version     string `json:"version"`
		Name        string `json:"name"`
		DisplayName string `json:"displayName"`
		Description string `json:"description"`
	}
	image struct {
		Name      string   `json:"name"`
		Image     string   `json:"image"`
		Platforms []string `json:"platforms,omitempty"`
	}
	link struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}
	change struct {
		Kind        string `json:"kind"`
		Description string `json:"description"`
	}
)

// released returns the content of Chart.yaml for a release, with the version and the annotations of
// Artifact Hub.
func released(raw []byte, r *product.Release, crds []crd, changes []changelog.Entry, platforms []string) ([]byte, error) {
	var chart map[string]any
	if err := yaml.UnmarshalStrict(raw, &chart); err != nil {
		return nil, err
	}
	chart["version"], chart["appVersion"] = r.Number(), r.Number()
	chart["home"], chart["sources"] = product.Repository, []string{product.Repository}
	annotations := map[string]any{}
	if own, ok := chart["annotations"].(map[string]any); ok {
		annotations = own
	}
	lists := map[string]any{
		"crds":   crds,
		"images": []image{{Name: product.Scheduler, Image: r.Image(product.Scheduler), Platforms: platforms}},
		"links": []link{
			{"Quick start", r.Page("docs/quickstart.md")},
			{"Upgrade notes", r.Page("CHANGELOG.md")},
			{"API stability", r.Page("docs/stability.md")},
		},
		"changes": listed(changes),
	}
	for key, list := range lists {
		text, err := yaml.Marshal(list)
		if err != nil {
			return nil, err
		}
		annotations["artifacthub.io/"+key] = string(text)
	}
	maps.Copy(annotations, map[string]any{
		"artifacthub.io/prerelease":              fmt.Sprint(r.Prerelease()),
		"artifacthub.io/containsSecurityUpdates": fmt.Sprint(slices.ContainsFunc(changes, func(e changelog.Entry) bool { return e.Kind == changelog.Security })),
	})
	chart["annotations"] = annotations
	return yaml.Marshal(chart)
}

// listed converts changes to the format of Artifact Hub. It writes the kinds of changes in lower
// case.
func listed(entries []changelog.Entry) []change {
	out := []change{}
	for _, e := range entries {
		out = append(out, change{Kind: strings.ToLower(string(e.Kind)), Description: changelog.Plain(e.Text)})
	}
	return out
}

// words matches the boundary between two words of a kind's name. It is used to write ResourceQuota
// as "resource quota".
var words = regexp.MustCompile(`([a-z])([A-Z])`)

// crds returns the annotation about each CustomResourceDefinition in the chart.
func crds(dir fs.FS) ([]crd, error) {
	files, err := fs.Glob(dir, crdDir+"/*.yaml")
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("the chart has no CustomResourceDefinitions in %s", crdDir), err)
	}
	var out []crd
	for _, file := range files {
		raw, err := fs.ReadFile(dir, file)
		if err != nil {
			return nil, fmt.Errorf("read a CustomResourceDefinition: %w", err)
		}
		var d struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				Names struct {
					Kind string `json:"kind"`
				} `json:"names"`
				Versions []struct {
					Name   string `json:"name"`
					Schema struct {
						OpenAPIV3Schema struct {
							Description string `json:"description"`
						} `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if d.Kind != "CustomResourceDefinition" {
			continue
		}
		for _, v := range d.Spec.Versions {
			out = append(out, crd{
				Kind: d.Spec.Names.Kind, Version: v.Name, Name: d.Metadata.Name, DisplayName: words.ReplaceAllString(d.Spec.Names.Kind, "$1 $2"),
				Description: strings.Join(strings.Fields(v.Schema.OpenAPIV3Schema.Description), " "),
			})
		}
	}
	return out, nil
}
