// Package playgroundtest gives tests a playground.
package playgroundtest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// binDirVariable names the directory of the binaries where that is not bin/ of the module.
const binDirVariable = "REPRIEVE_BIN"

// BinDir returns the directory of the component binaries: $REPRIEVE_BIN, else bin/ of the module. The test fails at once
// when one of the names is not there.
func BinDir(t testing.TB, names ...string) string {
	t.Helper()
	dir := os.Getenv(binDirVariable)
	if dir == "" {
		dir = filepath.Join(ModuleRoot(t), "bin")
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Fatalf("the binary %s is missing (%v): run `make build`, or set %s", name, err, binDirVariable)
		}
	}
	return dir
}

// ModuleRoot returns the directory of the module's go.mod.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the test binary does not say where its source is")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
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
