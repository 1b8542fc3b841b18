package stage

import (
	"context"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// Kubernetes is what the API server of the tests is, which is asked for its version.
func Kubernetes(t testing.TB) playground.Kubernetes {
	t.Helper()
	// What looks back at a test that has ended asks, too.
	out, err := playground.KubernetesIn(context.WithoutCancel(t.Context()), playgroundtest.BinDir(t, playground.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
