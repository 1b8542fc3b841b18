package workloads

import (
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/parallel"
)

// TestMain runs up to six tests at the same time, because they mostly wait.
func TestMain(m *testing.M) { os.Exit(parallel.Run(m, 6)) }
