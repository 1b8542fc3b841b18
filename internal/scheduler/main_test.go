package scheduler

import (
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/parallel"
)

// TestMain runs more tests at a time than there are cores. Most tests only wait for goroutines of a
// scheduler or for timers.
func TestMain(m *testing.M) { os.Exit(parallel.Run(m, 8)) }
