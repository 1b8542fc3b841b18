// Package playgroundtest starts playgrounds for tests.
package playgroundtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// binDirVariable is the environment variable with the directory of the component binaries. The
// default is the directory bin/ of the module.
const binDirVariable = "REPRIEVE_BIN"

// noBinaries is the value of REPRIEVE_BIN that skips all tests that need binaries. The flag -short
// is different: it makes tests check less.
const noBinaries = "none"

// BinDir returns the directory of the component binaries: $REPRIEVE_BIN, or bin/ of the module. It
// fails the test if one of the named binaries is missing. If $REPRIEVE_BIN is "none", it skips the
// test.
func BinDir(t testing.TB, names ...string) string {
	t.Helper()
	dir := os.Getenv(binDirVariable)
	if dir == noBinaries {
		t.Skipf("the test runs binaries of make build, which %s=%s leaves out", binDirVariable, noBinaries)
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

// ModuleRoot returns the directory of the module's go.mod. It searches from the working directory
// upwards, because tests run in the directory of their package. A test binary that was built with
// -trimpath does not know its source directory.
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
			t.Fatal("no directory above the directory of the test contains a go.mod")
		}
		dir = parent
	}
}

// ControlPlane returns the names of the binaries that every playground needs.
func ControlPlane() []string {
	return []string{playground.Etcd, playground.APIServer, playground.ControllerManager, playground.Kwok}
}

// Start starts a playground and stops it at the end of the test. The test fails if a component dies
// or if the cleanup fails. If options.BinDir is empty, Start sets it.
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
