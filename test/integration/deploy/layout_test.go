package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// These are media types of the Open Container Initiative (OCI).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// These types have the fields of OCI documents that the tests need. They are independent of the
// library that writes the documents.
type (
	descriptor struct {
		MediaType, Digest string
		Size              int64
		Platform          struct{ OS, Architecture string }
	}
	imageIndex struct {
		MediaType string
		Manifests []descriptor
	}
	imageManifest struct {
		MediaType string
		Config    descriptor
		Layers    []descriptor
	}
	imageConfig struct {
		OS, Architecture string
		RootFS           struct {
			DiffIDs []string `json:"diff_ids"`
		}
		Config struct {
			User, WorkingDir     string
			Env, Entrypoint, Cmd []string
			Labels               map[string]string
			ExposedPorts         map[string]struct{}
		}
	}
)

// layout is the directory of an OCI image layout.
type layout struct{ dir string }

// buildImage builds the scheduler's image from the program in bin/, and returns its layout.
func buildImage(t *testing.T) layout {
	t.Helper()
	root := playgroundtest.ModuleRoot(t)
	binary, err := filepath.Abs(filepath.Join(playgroundtest.BinDir(t, name), name))
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, filepath.Join(root, "hack", "release"))
	dir := filepath.Join(t.TempDir(), "image")
	// The commit and its date are arguments here, because the work tree may have changes without a
	// commit.
	build := exec.CommandContext(t.Context(), "go", "run", ".", "image", "-root", "../..", "-binary", binary, "-out", dir,
		"-version", "v0.0.0-test", "-commit", "0123abc", "-date", "1700000000", "-registry", "registry.example/reprieve")
	build.Dir = filepath.Join(root, "hack", "release")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the image: %v\n%s", err, output)
	}
	return layout{dir}
}

// readAll reads all source files in a directory. The test runs a program that is built from them.
// Go's test cache then notices when one of them changes.
func readAll(t *testing.T, dir string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// blob returns the content that a descriptor refers to. It checks the digest and the size.
func (l layout) blob(t *testing.T, d descriptor, mediaType string) []byte {
	t.Helper()
	if d.MediaType != mediaType {
		t.Fatalf("%s is a %s, want a %s", d.Digest, d.MediaType, mediaType)
	}
	algorithm, sum, _ := strings.Cut(d.Digest, ":")
	content, err := os.ReadFile(filepath.Join(l.dir, "blobs", algorithm, sum))
	if err != nil {
		t.Fatal(err)
	}
	if got := digestOf(content); got != d.Digest || int64(len(content)) != d.Size {
		t.Fatalf("%s of %d bytes is %s of %d", d.Digest, d.Size, got, len(content))
	}
	return content
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func decode[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var out T
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// image returns the configuration of the image for a platform. It unpacks the files of the image to
// the directory root.
func (l layout) image(t *testing.T, goos, arch, root string) imageConfig {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	outer := decode[imageIndex](t, raw)
	if len(outer.Manifests) != 1 {
		t.Fatalf("the layout has %d images, want 1", len(outer.Manifests))
	}
	index := decode[imageIndex](t, l.blob(t, outer.Manifests[0], typeIndex))
	i := slices.IndexFunc(index.Manifests, func(d descriptor) bool { return d.Platform.OS == goos && d.Platform.Architecture == arch })
	if i < 0 {
		t.Fatalf("there is no image for %s/%s: %+v", goos, arch, index.Manifests)
	}
	manifest := decode[imageManifest](t, l.blob(t, index.Manifests[i], typeManifest))
	config := decode[imageConfig](t, l.blob(t, manifest.Config, typeConfig))
	if len(config.RootFS.DiffIDs) != len(manifest.Layers) {
		t.Fatalf("the configuration has %d layers, the manifest %d", len(config.RootFS.DiffIDs), len(manifest.Layers))
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, d := range manifest.Layers {
		compressed, err := gzip.NewReader(bytes.NewReader(l.blob(t, d, typeLayer)))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(compressed)
		if err != nil {
			t.Fatal(err)
		}
		if got := digestOf(layer); got != config.RootFS.DiffIDs[i] {
			t.Fatalf("the layer %s is %s unpacked, want %s", d.Digest, got, config.RootFS.DiffIDs[i])
		}
		if err := unpack(root, layer); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// unpack unpacks a layer. Only regular files and directories that root owns are permitted.
func unpack(root string, layer []byte) error {
	for archive := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(root, filepath.FromSlash(h.Name))
		mode := h.FileInfo().Mode()
		switch {
		case !filepath.IsLocal(h.Name), h.Uid != 0, h.Gid != 0, mode.Perm()&0o022 != 0, mode&^(fs.ModePerm|fs.ModeDir) != 0:
			return fmt.Errorf("%s of %d:%d is a %s", h.Name, h.Uid, h.Gid, mode)
		case mode.IsDir():
			err = os.MkdirAll(path, mode.Perm())
		default:
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, content, mode.Perm())
			}
		}
		if err != nil {
			return err
		}
	}
}
