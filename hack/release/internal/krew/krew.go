package krew

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// File is the name that the manifest has to have: that of the plugin.
const File = "reprieve.yaml"

const summary = "Ask a gang scheduler who would go, and why work waits"

const description = `Asks Reprieve, a scheduler that places gangs whole and preempts whole
workloads, about its decisions: where work would land and who would go for it
before it is submitted (plan), what it waits for and which single change would
help (why), when it starts (when), what may be taken and what not (queues,
protected), and what has been decided (history, report, replay). The code that
decides in the scheduler answers, by the live cluster or by a snapshot. It only
reads.
`

const caveats = `What you may ask depends on what you may read: the ClusterRole
reprieve-planner, which Reprieve installs, is for those who plan.
`

// Archive is one that has the plugin.
type Archive struct {
	// Name is that of the file, and SHA256 its sum, in hexadecimal.
	Name, SHA256 string
	Platform     product.Platform
	// License is the name of the licence in it.
	License string
}

type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Bin      string   `json:"bin"`
	Files    []file   `json:"files"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type file struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Manifest is that of a release.
func Manifest(r *product.Release, archives []Archive) ([]byte, error) {
	m := manifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   metadata{Name: "reprieve"},
		Spec: spec{
			Version: r.Version, Homepage: product.Repository, ShortDescription: summary, Description: description, Caveats: caveats,
		},
	}
	for _, a := range archives {
		program := a.Platform.Binary(product.Plugin)
		m.Spec.Platforms = append(m.Spec.Platforms, platform{
			Selector: selector{MatchLabels: map[string]string{"os": a.Platform.OS, "arch": a.Platform.Arch}},
			URI:      r.Download(a.Name),
			SHA256:   a.SHA256,
			Bin:      program,
			Files:    []file{{From: program, To: "."}, {From: a.License, To: "."}},
		})
	}
	out, err := yaml.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write the krew manifest: %w", err)
	}
	return out, nil
}
