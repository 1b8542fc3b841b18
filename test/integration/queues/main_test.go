package queues

import (
	"fmt"
	"os"
	"testing"

	"github.com/reprieve-dev/reprieve/test/parallel"
)

// TestMain runs up to four tests at the same time. Each test has its own cluster, and mostly waits
// for a back-off or a min-runtime to end.
func TestMain(m *testing.M) {
	code := parallel.Run(m, 4)
	if err := pool.End(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
