package pack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary/binarytest"
	"github.com/reprieve-dev/reprieve/hack/release/internal/compile"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

const repository = "../../../.."

func release() *product.Release {
	return &product.Release{
		Version: "v0.2.0", Commit: "0123abc", Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Registry: "registry.example/reprieve",
	}
}

// some returns the products of a release with fewer platforms and with small programs.
func some() []product.Product {
	amd, arm, windows := product.Platform{OS: "linux", Arch: "amd64"}, product.Platform{OS: "linux", Arch: "arm64"}, product.Platform{OS: "windows", Arch: "amd64"}
	platforms := map[string][]product.Platform{product.Scheduler: {amd, arm}, product.Plugin: {amd, windows}, product.Playground: {amd}}
	out := product.Products()
	for i := range out {
		out[i].Platforms = platforms[out[i].Name]
		for j := range out[i].Binaries {
			out[i].Binaries[j].Module = "."
		}
	}
	return out
}

// options returns Options for a small repository with built programs.
func options(t *testing.T) Options {
	t.Helper()
	root, binaries := binarytest.Module(t), t.TempDir()
	for _, name := range []string{"LICENSE", "cmd/kubectl-reprieve/kubectl_complete-reprieve"} {
		put(t, filepath.Join(root, name), get(t, filepath.Join(repository, name)))
	}
	if err := os.CopyFS(in(root, "charts/reprieve"), os.DirFS(in(repository, "charts/reprieve"))); err != nil {
		t.Fatal(err)
	}
	put(t, in(root, "CHANGELOG.md"), []byte("# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n"))
	put(t, in(root, "changelog/README.md"), []byte("How."))
	put(t, in(root, "changelog/it.security.md"), []byte("A hole in [docs/it.md](docs/it.md)."))
	built := make(map[product.Platform][]byte)
	for _, s := range compile.Steps(some()) {
		if built[s.Platform] == nil {
			built[s.Platform] = binarytest.BuildIn(t, root, s.Platform, release().Version)
		}
		put(t, compile.Path(binaries, s.Binary, s.Platform), built[s.Platform])
	}
	return Options{
		Release: release(), Products: some(), Binaries: binaries, Root: root,
		Out: filepath.Join(t.TempDir(), "out"), Progress: func(line string) { t.Log(line) },
	}
}

// in returns the path of a file below dir. The name has slashes on all systems.
func in(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// tree returns the content of all files below a directory, by path.
func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		out[name] = get(t, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRun packs a release twice and checks all its files. The second run must produce the same
// bytes as the first.
func TestRun(t *testing.T) {
	o := options(t)
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	files := tree(t, o.Out)
	t.Run("the files", func(t *testing.T) { testFiles(t, files) })
	t.Run("the sums", func(t *testing.T) { testSums(t, files) })
	t.Run("the archives", func(t *testing.T) { testArchives(t, files) })
	t.Run("the notes", func(t *testing.T) { testNotes(t, files) })
	t.Run("the krew manifest", func(t *testing.T) { testKrew(t, files) })

	// The second run uses a copy of the repository, and a directory with an older release.
	o.Root = moved(t, o.Root)
	put(t, filepath.Join(o.Out, "of-an-older-release"), nil)
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	again := tree(t, o.Out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !bytes.Equal(files[name], again[name]) {
			t.Errorf("%s is another one the second time", name)
		}
		delete(again, name)
	}
	if len(again) > 0 {
		t.Errorf("there is more the second time: %v", slices.Sorted(maps.Keys(again)))
	}
}

// moved copies a directory and returns the path of the copy.
func moved(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return out
}

func testFiles(t *testing.T, files map[string][]byte) {
	var got []string
	for name := range files {
		if !strings.HasPrefix(name, ImageDir+"/") {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	want := []string{
		"checksums.txt", "images.txt",
		"kubectl-reprieve_v0.2.0_linux_amd64.tar.gz", "kubectl-reprieve_v0.2.0_linux_amd64.tar.gz.cdx.json",
		"kubectl-reprieve_v0.2.0_windows_amd64.zip", "kubectl-reprieve_v0.2.0_windows_amd64.zip.cdx.json",
		"release-notes.md", "reprieve-0.2.0.tgz",
		"reprieve-playground_v0.2.0_linux_amd64.tar.gz", "reprieve-playground_v0.2.0_linux_amd64.tar.gz.cdx.json",
		"reprieve-scheduler_v0.2.0_linux_amd64.tar.gz", "reprieve-scheduler_v0.2.0_linux_amd64.tar.gz.cdx.json",
		"reprieve-scheduler_v0.2.0_linux_arm64.tar.gz", "reprieve-scheduler_v0.2.0_linux_arm64.tar.gz.cdx.json",
		"reprieve.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, image := range []string{product.Scheduler, product.Plugin} {
		if len(files[ImageDir+"/"+image+"/index.json"]) == 0 {
			t.Errorf("there is no image of %s", image)
		}
	}
	if lines := strings.Fields(string(files[Images])); len(lines) != 2 || !strings.HasPrefix(lines[0], "registry.example/reprieve/reprieve-scheduler:v0.2.0@sha256:") {
		t.Errorf("the images are %q", lines)
	}
}

// testSums checks that each file for users to download has the correct checksum.
func testSums(t *testing.T, files map[string][]byte) {
	got := make(map[string]string)
	for line := range strings.Lines(string(files[Checksums])) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got[name] = sum
	}
	for name, content := range files {
		if name == Checksums || strings.HasPrefix(name, ImageDir+"/") {
			continue
		}
		if sum := sha256.Sum256(content); got[name] != hex.EncodeToString(sum[:]) {
			t.Errorf("the sum of %s is %q", name, got[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("there are sums of what there is not: %v", got)
	}
}

func testArchives(t *testing.T, files map[string][]byte) {
	for archive, want := range map[string][]string{
		"kubectl-reprieve_v0.2.0_linux_amd64.tar.gz":   {"644 LICENSE", "644 THIRD_PARTY_LICENSES", "755 kubectl-reprieve", "755 kubectl_complete-reprieve"},
		"kubectl-reprieve_v0.2.0_windows_amd64.zip":    {"644 LICENSE", "644 THIRD_PARTY_LICENSES", "755 kubectl-reprieve.exe"},
		"reprieve-scheduler_v0.2.0_linux_arm64.tar.gz": {"644 LICENSE", "644 THIRD_PARTY_LICENSES", "755 reprieve-scheduler"},
		"reprieve-playground_v0.2.0_linux_amd64.tar.gz": {
			"644 LICENSE", "644 THIRD_PARTY_LICENSES", "755 etcd", "755 kube-apiserver", "755 kube-controller-manager", "755 kwok", "755 playground", "755 reprieve-scheduler",
		},
	} {
		if diff := cmp.Diff(want, listed(t, archive, files[archive])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", archive, diff)
		}
	}
}

// listed returns the names and permissions of the files in an archive.
func listed(t *testing.T, name string, content []byte) []string {
	t.Helper()
	files := unpacked(t, name, content)
	var out []string
	for _, file := range slices.Sorted(maps.Keys(files)) {
		out = append(out, fmt.Sprintf("%o %s", files[file].mode, file))
	}
	return out
}

// packedFile is a file in an archive.
type packedFile struct {
	mode    fs.FileMode
	content []byte
}

// unpacked returns the files in an archive by name.
func unpacked(t *testing.T, name string, content []byte) map[string]packedFile {
	t.Helper()
	out := make(map[string]packedFile)
	add := func(name string, info fs.FileInfo, from io.Reader) {
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = packedFile{info.Mode().Perm(), content}
	}
	if strings.HasSuffix(name, ".zip") {
		archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.File {
			from, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(f.Name, f.FileInfo(), from)
		}
		return out
	}
	raw, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(raw); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		add(h.Name, h.FileInfo(), archive)
	}
}

func testNotes(t *testing.T, files map[string][]byte) {
	notes := string(files[Notes])
	for _, want := range []string{
		"## Added\n\n- A thing.\n", "\n## Security\n\n- A hole in [docs/it.md](https://github.com/reprieve-dev/reprieve/blob/v0.2.0/docs/it.md).\n",
		"\n## Images\n\n- `registry.example/reprieve/reprieve-scheduler:v0.2.0@sha256:", "sha256sum --check",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q", want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	base := options(t)
	for name, tc := range map[string]struct {
		change func(t *testing.T, o *Options)
		want   string
	}{
		"a program of another version": {
			func(_ *testing.T, o *Options) { o.Release.Version = "v0.3.0" }, "it is not of version v0.3.0",
		},
		"a program for another platform": {
			func(t *testing.T, o *Options) {
				t.Helper()
				put(t, in(o.Binaries, "linux_amd64/reprieve-scheduler"), get(t, in(o.Binaries, "linux_arm64/reprieve-scheduler")))
			}, "it is for linux/arm64, want linux/amd64",
		},
		"a program that is missing": {
			func(_ *testing.T, o *Options) { o.Binaries = "nowhere" }, "read a program",
		},
		"a fragment that cannot be read": {
			func(t *testing.T, o *Options) {
				t.Helper()
				put(t, in(o.Root, "changelog/it.md"), []byte("It."))
			}, "fragment it.md",
		},
		"a directory of something else": {
			func(t *testing.T, o *Options) {
				t.Helper()
				put(t, filepath.Join(o.Out, "letters.txt"), nil)
			}, ErrForeign.Error(),
		},
		"a version that is none": {
			func(_ *testing.T, o *Options) { o.Release.Version = "latest" }, "the version is",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := base
			o.Release, o.Root, o.Binaries, o.Out = release(), moved(t, base.Root), moved(t, base.Binaries), filepath.Join(t.TempDir(), "out")
			tc.change(t, &o)
			if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestGather(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "CHANGELOG.md"), []byte("# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n"))
	put(t, in(root, "changelog/README.md"), []byte("How."))
	put(t, in(root, "changelog/it.fixed.md"), []byte("It."))
	got, err := Gather(root, release(), "2026-03-04")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"it.fixed.md"}) {
		t.Errorf("gathered %v", got)
	}
	want := map[string][]byte{
		"CHANGELOG.md":        []byte("# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-03-04\n\n### Added\n\n- A thing.\n\n### Fixed\n\n- It.\n"),
		"changelog/README.md": []byte("How."),
	}
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
