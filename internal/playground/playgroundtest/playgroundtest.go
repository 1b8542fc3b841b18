// Package playgroundtest gives tests a playground.
package playgroundtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// binDirVariable names the directory of the binaries where that is not bin/ of the module.
const binDirVariable = "REPRIEVE_BIN"

// noBinaries in the variable leaves out the tests that need any. It is not -short, with which others look at less.
const noBinaries = "none"

// BinDir returns the directory of the component binaries: $REPRIEVE_BIN, else bin/ of the module. The test fails at once
// when one of the names is not there. It is skipped where that is "none": what asks for binaries is no unit test.
func BinDir(t testing.TB, names ...string) string {
	t.Helper()
	dir := os.Getenv(binDirVariable)
	if dir == noBinaries {
		t.Skipf("it runs what make build builds, which %s=%s leaves out", binDirVariable, noBinaries)
	}
	if dir == "" {
		dir = filepath.Join(ModuleRoot(t), "bin")
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Fatalf("the binary %s is missing (%v): run `make build`, or set %s", name, err, binDirVariable)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			if hint := staleHint(ModuleRoot(t), dir, names); hint != "" {
				t.Log(hint)
			}
		}
	})
	return dir
}

// ModuleRoot returns the directory of the module's go.mod. Tests run in the directory of their package, which is below it;
// the test binary may not say where its source is (-trimpath).
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no directory above that of the test has a go.mod")
		}
		dir = parent
	}
}

// ControlPlane are the binaries that every playground needs.
func ControlPlane() []string {
	return []string{playground.Etcd, playground.APIServer, playground.ControllerManager, playground.Kwok}
}

// Start runs a playground for the duration of the test, and fails the test when a component died or anything is left over.
// BinDir is filled in where it is empty.
func Start(t testing.TB, options playground.Options) *playground.Playground {
	t.Helper()
	if options.BinDir == "" {
		options.BinDir = BinDir(t, ControlPlane()...)
	}
	if options.Progress == nil {
		options.Progress = func(step string) { t.Log("playground: " + step) }
	}
	p, err := playground.Start(t.Context(), options)
	if err != nil {
		t.Fatalf("start a playground: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop the playground: %v", err)
		}
	})
	return p
}
