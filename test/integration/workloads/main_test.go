package workloads

import (
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/parallel"
)

// TestMain has all tests of a playground side by side: most of their time they wait.
func TestMain(m *testing.M) { os.Exit(parallel.Run(m, 6)) }
