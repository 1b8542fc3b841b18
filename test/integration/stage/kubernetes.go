package stage

import (
	"context"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// Kubernetes returns the version of the tests' API server. It runs the binary for that.
func Kubernetes(t testing.TB) playground.Kubernetes {
	t.Helper()
	// Cleanup functions of an ended test call this, too.
	out, err := playground.KubernetesIn(context.WithoutCancel(t.Context()), playgroundtest.BinDir(t, playground.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
