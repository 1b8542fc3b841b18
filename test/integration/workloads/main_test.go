package workloads

import (
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestMain has all tests of a playground side by side: most of their time they wait.
func TestMain(m *testing.M) { os.Exit(stage.RunTests(m, 6)) }
