package krew

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// File is the file name of the manifest. Krew requires that it is the name of the plugin.
const File = "reprieve.yaml"

const summary = "Ask a gang scheduler for victims and causes of waits"

const description = `Asks Reprieve about its decisions. Reprieve is a scheduler that places gangs
whole and preempts whole workloads. Before work is submitted, the plugin shows
where it would run, and its victims (plan). For waiting work it shows the cause
and the single changes that would help (why), and the start (when). It also
shows protected work (queues, protected) and past decisions (history, report,
replay). The scheduler's own code answers, from the live cluster or from a
snapshot. The plugin only reads.
`

const caveats = `The answers depend on your permissions. To plan, use the ClusterRole
reprieve-planner, which Reprieve installs.
`

// Archive is a released archive with the plugin for one platform.
type Archive struct {
	// Name is the file name of the archive. SHA256 is the checksum of the archive in hexadecimal.
	Name, SHA256 string
	Platform     product.Platform
	// License is the name of the licence file in the archive.
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

// Manifest returns the manifest of a release in YAML.
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
