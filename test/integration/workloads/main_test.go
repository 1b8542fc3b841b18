package workloads

import (
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/parallel"
)

// TestMain runs all tests of a playground in parallel, because they wait most of the time.
func TestMain(m *testing.M) { os.Exit(parallel.Run(m, 6)) }
