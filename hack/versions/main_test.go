package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events     string
		tests      tests
		wantPass   int
		wantFailed []string
		wantOutput string
	}{
		"all pass": {
			events:   `{"Action":"pass","Test":"TestA/x"}` + "\n" + `{"Action":"pass","Test":"TestA"}` + "\n" + `{"Action":"pass"}`,
			tests:    tests{names: []string{"TestA"}},
			wantPass: 2,
		},
		"one fails": {
			events:     `{"Action":"output","Test":"TestA","Output":"why\n"}` + "\n" + `{"Action":"fail","Test":"TestA"}` + "\n" + `{"Action":"fail"}`,
			tests:      tests{names: []string{"TestA"}},
			wantFailed: []string{"TestA"}, wantOutput: "why\n",
		},
		"one is left out": {
			events:     `{"Action":"skip","Test":"TestA"}` + "\n" + `{"Action":"pass"}`,
			tests:      tests{names: []string{"TestA"}},
			wantFailed: []string{"TestA did not run"},
		},
		"none is there": {
			events:     `{"Action":"pass"}`,
			tests:      tests{pkg: "./p"},
			wantFailed: []string{"./p did not run"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(strings.NewReader(c.events), c.tests)
			if err != nil || got.pass != c.wantPass || !slices.Equal(got.failed, c.wantFailed) || got.output != c.wantOutput {
				t.Errorf("got %+v, error %v", got, err)
			}
		})
	}
}

// results returns a result for each area, with the given number of passed tests.
func results(pass int) []result {
	out := make([]result, len(core()))
	for i := range out {
		out[i].pass = pass
	}
	return out
}

// TestTable checks that a run replaces the rows of the tested versions, and keeps all other rows
// that have the same columns.
func TestTable(t *testing.T) {
	t.Parallel()
	first := table(nil, []row{{"1.34", "v1.34.4", results(1)}, {"1.100", "v1.100.0", results(1)}})
	second := table(strings.Split(first, "\n"), []row{{"1.34", "v1.34.5", results(2)}})
	lines := strings.Split(strings.TrimSpace(second), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], "| 1.100 | v1.100.0 | 1 pass |") || !strings.HasPrefix(lines[3], "| 1.34 | v1.34.5 | 2 pass |") {
		t.Errorf("the table is\n%s", second)
	}
	other := strings.Replace(first, "Install", "Other", 1)
	if got := table(strings.Split(other, "\n"), []row{{"1.34", "v1.34.5", results(2)}}); strings.Contains(got, "1.100") {
		t.Errorf("a row of other columns is kept:\n%s", got)
	}
}

// TestPrepare checks that the directory of each version has the version's control plane, and the
// newest version of all other binaries. When the other binaries are built again, the directory must
// have the new ones.
func TestPrepare(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(bin, "kube-apiserver"), "new")
	write(filepath.Join(bin, "etcd"), "new")
	write(filepath.Join(bin, "versions", "1.34", "kube-apiserver"), "old")
	for _, etcd := range []string{"new", "newer"} {
		write(filepath.Join(bin, "etcd"), etcd)
		for version, apiserver := range map[string]string{"1.34": "old", "1.37": "new"} {
			dir, err := prepare(bin, version)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"kube-apiserver": apiserver, "etcd": etcd} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
					t.Errorf("%s of %s is %q, want %q (%v)", name, version, got, want, err)
				}
			}
		}
	}
}

// TestPageHasAllVersions checks that the committed page has a row for each supported version.
func TestPageHasAllVersions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "versions.md"))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Glob(filepath.Join("..", "tools", "kube-*"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("%d modules of older versions, error %v", len(modules), err)
	}
	for _, m := range modules {
		if v := strings.TrimPrefix(filepath.Base(m), "kube-"); !strings.Contains(string(page), "\n| "+v+" | v"+v+".") {
			t.Errorf("docs/versions.md has no row of %s", v)
		}
	}
}
