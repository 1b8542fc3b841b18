package stage

import (
	"context"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// Kubernetes returns the version of the API server's binary. It runs the binary to find the
// version.
func Kubernetes(t testing.TB) playground.Kubernetes {
	t.Helper()
	// Cleanup functions call this after the test's context has ended.
	out, err := playground.KubernetesIn(context.WithoutCancel(t.Context()), playgroundtest.BinDir(t, playground.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
