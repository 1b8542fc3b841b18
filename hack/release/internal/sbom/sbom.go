package sbom

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// Name returns the file name of the bill of materials for an archive.
func Name(archive string) string { return archive + ".cdx.json" }

// Write returns the bill of materials for an archive, in JSON. name is the name of the product in
// the archive. licenses maps the "source@version" of a module to the SPDX names of its licences. A
// module without an entry is listed without licences.
func Write(r *product.Release, name string, programs []*binary.Program, licenses map[string][]string) ([]byte, error) {
	seed := sha256.New()
	modules := make(map[string]binary.Module)
	toolchains := make(map[string]bool)
	for _, p := range programs {
		seed.Write(p.Content)
		toolchains[p.Go] = true
		for _, m := range append(slices.Clone(p.Modules), p.Main) {
			if m.Source != mainModule {
				modules[m.Source+"@"+m.Version] = m
			}
		}
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = serial(seed.Sum(nil))
	main := ours(r, name)
	bom.Metadata = &cdx.Metadata{Timestamp: r.Date.UTC().Format(time.RFC3339), Component: main}
	var components []cdx.Component
	for toolchain := range toolchains {
		components = append(components, standardLibrary(toolchain))
	}
	for key, m := range modules {
		c, err := component(m, licenses[key])
		if err != nil {
			return nil, err
		}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	refs := make([]string, len(components))
	for i := range components {
		refs[i] = components[i].BOMRef
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write the list of modules: %w", err)
	}
	return out.Bytes(), nil
}

// mainModule is the path of this repository's module. The build information has no version for this
// module.
const mainModule = "github.com/reprieve-dev/reprieve"

func ours(r *product.Release, name string) *cdx.Component {
	purl := "pkg:golang/" + mainModule + "@" + r.Version + "#cmd/" + name
	return &cdx.Component{
		Type: cdx.ComponentTypeApplication, BOMRef: purl, Name: name, Version: r.Version, PackageURL: purl,
		Licenses: named([]string{"Apache-2.0"}),
	}
}

func standardLibrary(toolchain string) cdx.Component {
	version := strings.TrimPrefix(toolchain, "go")
	purl := "pkg:golang/stdlib@" + version
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: "stdlib", Version: version, PackageURL: purl, Licenses: named([]string{"BSD-3-Clause"}),
	}
}

func component(m binary.Module, licenses []string) (cdx.Component, error) {
	purl := "pkg:golang/" + m.Source + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: m.Source, Version: m.Version, PackageURL: purl, Licenses: named(licenses),
	}
	if m.Sum == "" {
		return c, nil
	}
	encoded, ok := strings.CutPrefix(m.Sum, "h1:")
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return c, fmt.Errorf("%s has the checksum %q, which is none of go.sum", m.Source, m.Sum)
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return c, nil
}

// named converts SPDX names to licences. Without names, it returns nil.
func named(ids []string) *cdx.Licenses {
	if len(ids) == 0 {
		return nil
	}
	out := cdx.Licenses{}
	for _, id := range ids {
		out = append(out, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &out
}

// serial returns a UUID that depends only on the programs. sum is a checksum of the programs.
func serial(sum []byte) string {
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}
