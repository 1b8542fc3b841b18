package sbom

import (
	"bytes"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

func release() *product.Release {
	return &product.Release{
		Version: "v0.2.0", Commit: "0123abc", Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Registry: "registry.example/reprieve",
	}
}

func programs() []*binary.Program {
	ours := binary.Module{Path: mainModule, Source: mainModule, Version: "(devel)"}
	api := binary.Module{Path: "k8s.io/api", Source: "k8s.io/api", Version: "v0.37.1", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}
	return []*binary.Program{
		{Content: []byte("one"), Go: "go1.26.0", Main: ours, Modules: []binary.Module{
			api, {Path: "example.com/old", Source: "example.com/new", Version: "v1.0.0+incompatible"},
		}},
		{Content: []byte("two"), Go: "go1.26.0", Main: binary.Module{Path: "example.com/etcd", Source: "example.com/etcd", Version: "v3.7.0"}, Modules: []binary.Module{api}},
	}
}

func written(t *testing.T, programs []*binary.Program) *cdx.BOM {
	t.Helper()
	raw, err := Write(release(), "playground", programs, map[string][]string{"k8s.io/api@v0.37.1": {"Apache-2.0"}})
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(raw), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return &bom
}

func TestWrite(t *testing.T) {
	t.Parallel()
	bom := written(t, programs())
	if c := bom.Metadata.Component; c.Name != "playground" || c.Version != "v0.2.0" || bom.Metadata.Timestamp != "2026-03-04T05:06:07Z" {
		t.Errorf("it is of %s %s, of %s", c.Name, c.Version, bom.Metadata.Timestamp)
	}
	var got []string
	for _, c := range *bom.Components {
		words := []string{c.PackageURL}
		if c.Licenses != nil {
			words = append(words, (*c.Licenses)[0].License.ID)
		}
		if c.Hashes != nil {
			words = append(words, (*c.Hashes)[0].Value)
		}
		got = append(got, strings.Join(words, " "))
	}
	want := []string{
		"pkg:golang/example.com/etcd@v3.7.0",
		"pkg:golang/example.com/new@v1.0.0%2Bincompatible",
		"pkg:golang/k8s.io/api@v0.37.1 Apache-2.0 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		"pkg:golang/stdlib@1.26.0 BSD-3-Clause",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	dependencies := *bom.Dependencies
	if len(dependencies) != 1 || dependencies[0].Ref != bom.Metadata.Component.BOMRef || len(*dependencies[0].Dependencies) != len(want) {
		t.Errorf("it depends on %+v", dependencies)
	}
}

// TestSerialNumber checks that the serial number depends only on the programs.
func TestSerialNumber(t *testing.T) {
	t.Parallel()
	first := written(t, programs()).SerialNumber
	other := programs()
	other[1].Content = []byte("another")
	if again, changed := written(t, programs()).SerialNumber, written(t, other).SerialNumber; again != first || changed == first {
		t.Errorf("numbers %s, %s again, and %s of other programs", first, again, changed)
	}
}

func TestChecksumRefused(t *testing.T) {
	t.Parallel()
	p := programs()[:1]
	p[0].Modules[0].Sum = "md5:abc"
	if _, err := Write(release(), "playground", p, nil); err == nil || !strings.Contains(err.Error(), "k8s.io/api") {
		t.Errorf("got %v", err)
	}
}
