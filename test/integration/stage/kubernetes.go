package stage

import (
	"context"
	"sync"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// released asks the API server of a directory for its version, once: it takes a moment, and all tests of a package run one.
var released sync.Map

// Kubernetes is what the API server of the tests is.
func Kubernetes(t testing.TB) playground.Kubernetes {
	t.Helper()
	dir := playgroundtest.BinDir(t, playground.APIServer)
	once, _ := released.LoadOrStore(dir, sync.OnceValues(func() (playground.Kubernetes, error) {
		return playground.KubernetesIn(context.Background(), dir)
	}))
	ask, ok := once.(func() (playground.Kubernetes, error))
	if !ok {
		t.Fatal("what asks for the version is no function")
	}
	out, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
