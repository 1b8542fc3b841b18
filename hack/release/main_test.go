package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

func TestMistakes(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"want a command":                      {},
		"want a command: build":               {"publish"},
		`"v0.1.0-dev+abc", want one such as`:  {"notes", "-version", "v0.1.0-dev+abc"},
		`"more" is no flag`:                   {"notes", "-version", "v0.2.0", "more"},
		"-binaries is missing":                {"build", "-version", "v0.2.0"},
		"do not have +reprieve.v0.2.0":        {"build", "-version", "v0.2.0", "-binaries", "x", "-ldflags", "-X v=v1+reprieve.v0.1.0", "-part-ldflags", "-s"},
		`"kubelet" is not among`:              {"pack", "-version", "v0.2.0", "-only", "kubelet"},
		`"linux" is no platform`:              {"pack", "-version", "v0.2.0", "-platforms", "linux"},
		"-out is missing":                     {"pack", "-version", "v0.2.0", "-binaries", "x"},
		"playground has no image":             {"image", "-version", "v0.2.0", "-only", "playground", "-binary", "x", "-out", "y"},
		`the time of the commit is "today"`:   {"chart", "-version", "v0.2.0", "-out", "x", "-commit", "abc", "-date", "today"},
		`the day is "today", want one such`:   {"changelog", "-version", "v0.2.0", "-day", "today"},
		"the registry is":                     {"chart", "-version", "v0.2.0", "-out", "x", "-commit", "abc", "-date", "1", "-registry", ""},
		"flag provided but not defined: -bin": {"build", "-bin", "x"},
	} {
		if err := run(t.Context(), io.Discard, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}

// TestPageHasAllImages checks that docs/releasing.md has the command to push each image.
func TestPageHasAllImages(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "releasing.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := &product.Release{Version: "v0.2.0", Registry: registry}
	images := 0
	for _, p := range product.Products() {
		if !p.HasImage {
			continue
		}
		images++
		if push := "crane push $PWD/bin/release/images/" + p.Name + " " + r.Image(p.Name) + "\n"; !strings.Contains(string(page), push) {
			t.Errorf("docs/releasing.md lacks %q", push)
		}
	}
	if pushed := strings.Count(string(page), "crane push "); pushed != images || images < 2 {
		t.Errorf("docs/releasing.md pushes %d images, and there are %d", pushed, images)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "changelog"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n### Fixed\n\n- It.\n",
		filepath.Join("changelog", "it.added.md"): "That ([docs/it.md](docs/it.md)).\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"notes", "-root", root, "-version", "v0.2.0"}); err != nil {
		t.Fatal(err)
	}
	const want = "## Added\n\n- That ([docs/it.md](https://github.com/reprieve-dev/reprieve/blob/v0.2.0/docs/it.md)).\n\n## Fixed\n\n- It.\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// repository creates a git repository with one commit and returns its directory.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("it"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "it"},
	} {
		git := exec.CommandContext(t.Context(), "git", args...)
		git.Dir = dir
		git.Env = append(os.Environ(), "GIT_COMMITTER_DATE=1700000000 +0200")
		if output, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, output)
		}
	}
	return dir
}

// TestIdentity checks the commit and date that come from git, and that flags take precedence. If
// the work tree has changes, the commit of the release must show it.
func TestIdentity(t *testing.T) {
	t.Parallel()
	s := &settings{root: repository(t), version: "v0.2.0", registry: registry}
	clean, err := s.release(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(clean.Commit) != 40 || !clean.Date.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("it is %+v", clean)
	}
	if err := os.WriteFile(filepath.Join(s.root, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := s.release(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if changed.Commit != clean.Commit+"-dirty" {
		t.Errorf("the commit is %s, want %s-dirty", changed.Commit, clean.Commit)
	}
	s.commit, s.date = "0123abc", "1"
	given, err := s.release(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if given.Commit != "0123abc" || !given.Date.Equal(time.Unix(1, 0)) {
		t.Errorf("it is %+v", given)
	}
}
