package queues

import (
	"fmt"
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/parallel"
)

// TestMain runs four tests at a time. Each has a cluster of its own, and mostly waits for the end
// of a back-off or a min-runtime.
func TestMain(m *testing.M) {
	code := parallel.Run(m, 4)
	if err := pool.End(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
