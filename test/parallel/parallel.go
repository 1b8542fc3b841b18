// Package parallel runs tests that wait most of the time. More of them than cores may run in
// parallel.
package parallel

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Run runs the tests of a package and returns the exit code. At most the given number of parallel
// tests run at a time, unless -parallel is set. It is for TestMain.
func Run(m *testing.M, most int) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(most)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
