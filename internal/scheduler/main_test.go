package scheduler

import (
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/parallel"
)

// TestMain has more tests at a time than there are cores: most wait for a scheduler's goroutines, and for moments.
func TestMain(m *testing.M) { os.Exit(parallel.Run(m, 8)) }
