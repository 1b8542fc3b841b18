package deploy

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// TestImageHasItsSources checks that the Dockerfile copies all packages that the build needs: the
// packages of the scheduler, and the packages of the program that runs the build.
func TestImageHasItsSources(t *testing.T) {
	root := playgroundtest.ModuleRoot(t)
	ignored := readLines(t, filepath.Join(root, ".dockerignore"))
	sources := t.TempDir()
	for _, source := range imageSources(t, filepath.Join(root, "Dockerfile")) {
		if !slices.Contains(ignored, "!"+source) {
			t.Errorf("the Dockerfile copies %s, which .dockerignore keeps from it", source)
		}
		copyTree(t, filepath.Join(root, source), filepath.Join(sources, source))
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Error}}{{.}}{{end}}", "./cmd/"+name, "./hack/build")
	list.Dir = sources
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if output, err := list.CombinedOutput(); err != nil || len(strings.TrimSpace(string(output))) > 0 {
		t.Errorf("the image does not build: %v\n%s", err, output)
	}
}

// imageSources returns the files and directories of the repository that the Dockerfile copies.
func imageSources(t *testing.T, dockerfile string) []string {
	t.Helper()
	var out []string
	for _, line := range readLines(t, dockerfile) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "COPY" || strings.HasPrefix(words[1], "--from=") {
			continue
		}
		target := words[len(words)-1]
		for _, source := range words[1 : len(words)-1] {
			if got := path.Join(target, path.Base(source)); got != source && path.Clean(target) != source {
				t.Errorf("%s: it has another place in the image", line)
			}
			out = append(out, source)
		}
	}
	if len(out) == 0 {
		t.Fatal("the Dockerfile copies nothing")
	}
	return out
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n")
}

// copyTree copies a file, or a directory with its content.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else {
		var raw []byte
		raw, err = os.ReadFile(from)
		err = errors.Join(err, os.WriteFile(to, raw, fs.FileMode(0o600)))
	}
	if err != nil {
		t.Fatal(err)
	}
}
