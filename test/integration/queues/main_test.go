package queues

import (
	"fmt"
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/parallel"
)

// TestMain has four tests at a time: each has a cluster to itself, and most of its time waits for the end of a back-off or
// of a min-runtime.
func TestMain(m *testing.M) {
	code := parallel.Run(m, 4)
	if err := pool.End(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
