// Package parallel runs tests that wait most of the time: there may be more of them side by side than cores.
package parallel

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Run runs the tests of a package, that many of the parallel ones at a time unless -parallel says otherwise, and returns
// what to exit with. It is for TestMain.
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
