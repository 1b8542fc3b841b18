package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

func release() *product.Release {
	return &product.Release{
		Version: "v0.2.0", Commit: "0123abc", Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Registry: "registry.example/reprieve",
	}
}

func scheduler() *product.Product {
	return &product.Product{Name: "reprieve-scheduler", Title: "the scheduler", HasImage: true, Port: 10259}
}

func contents() []Content {
	var out []Content
	for _, arch := range []string{"amd64", "arm64"} {
		out = append(out, Content{
			Platform: product.Platform{OS: "linux", Arch: arch}, Program: []byte("program for " + arch),
			License: []byte("ours"), ThirdParty: []byte("theirs"),
		})
	}
	return out
}

func built(t *testing.T, contents []Content) v1.ImageIndex {
	t.Helper()
	index, err := Build(release(), scheduler(), contents)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// files returns the content of the files below a directory, by path.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSameBytes(t *testing.T) {
	t.Parallel()
	write := func(contents []Content) (map[string]string, string) {
		dir := filepath.Join(t.TempDir(), "image")
		digest, err := Write(dir, release(), scheduler(), built(t, contents))
		if err != nil {
			t.Fatal(err)
		}
		return files(t, dir), digest
	}
	first, digest := write(contents())
	second, again := write(contents())
	if digest != again || !cmp.Equal(first, second) {
		t.Errorf("the same files make another image: %s, and %s before", again, digest)
	}
	other := contents()
	other[1].Program = []byte("another program")
	if _, changed := write(other); changed == digest {
		t.Error("another program makes the same image")
	}
}

// TestPulled pushes the layout to a registry, and pulls the image for each architecture from the
// registry.
func TestPulled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "image")
	digest, err := Write(dir, release(), scheduler(), built(t, contents()))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/reprieve-scheduler:v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest.String() != digest ||
		manifest.Manifests[0].Annotations[keyName] != "registry.example/reprieve/reprieve-scheduler:v0.2.0" {
		t.Fatalf("the layout has %+v", manifest.Manifests)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	for _, c := range contents() {
		image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: c.Platform.OS, Architecture: c.Platform.Arch}))
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, c)
	}
	if _, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "s390x"})); err == nil {
		t.Error("there is an image for an architecture that nothing is built for")
	}
}

func checkImage(t *testing.T, image v1.Image, c Content) {
	t.Helper()
	got, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got.Architecture != c.Platform.Arch || got.OS != c.Platform.OS || !got.Created.Equal(release().Date) {
		t.Errorf("it is for %s/%s, of %s", got.OS, got.Architecture, got.Created)
	}
	want := v1.Config{
		User: "65532:65532", Entrypoint: []string{"/reprieve-scheduler"}, WorkingDir: "/",
		ExposedPorts: map[string]struct{}{"10259/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":         "reprieve-scheduler",
			"org.opencontainers.image.description":   "Reprieve: the scheduler",
			"org.opencontainers.image.version":       "v0.2.0",
			"org.opencontainers.image.revision":      "0123abc",
			"org.opencontainers.image.created":       "2026-03-04T05:06:07Z",
			"org.opencontainers.image.source":        "https://github.com/reprieve-dev/reprieve",
			"org.opencontainers.image.url":           "https://github.com/reprieve-dev/reprieve",
			"org.opencontainers.image.documentation": "https://github.com/reprieve-dev/reprieve/blob/v0.2.0/README.md",
			"org.opencontainers.image.licenses":      "Apache-2.0",
			"org.opencontainers.image.vendor":        "Reprieve",
		},
	}
	if diff := cmp.Diff(want, got.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	wantFiles := []string{
		"drwxr-xr-x licenses/ ", "-rw-r--r-- licenses/LICENSE ours", "-rw-r--r-- licenses/THIRD_PARTY_LICENSES theirs",
		"-rwxr-xr-x reprieve-scheduler " + string(c.Program),
	}
	if diff := cmp.Diff(wantFiles, unpacked(t, image)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// unpacked returns the names of the files in an image, in the order of the layers.
func unpacked(t *testing.T, image v1.Image) []string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, layer := range layers {
		raw, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for archive := tar.NewReader(raw); ; {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var content bytes.Buffer
			if _, err := io.Copy(&content, archive); err != nil {
				t.Fatal(err)
			}
			out = append(out, h.FileInfo().Mode().String()+" "+h.Name+" "+content.String())
		}
	}
	return out
}

// TestOnlyNew checks that the layout has one image after two calls of Write for the same directory.
func TestOnlyNew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "image")
	for range 2 {
		if _, err := Write(dir, release(), scheduler(), built(t, contents())); err != nil {
			t.Fatal(err)
		}
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Errorf("the layout has %d images, want 1", len(manifest.Manifests))
	}
}
