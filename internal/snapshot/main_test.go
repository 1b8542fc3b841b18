package snapshot

import (
	"os"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestMain registers the metrics that the framework's cache updates. Without them, a test that uses
// the cache panics.
func TestMain(m *testing.M) {
	metrics.Register()
	os.Exit(m.Run())
}
