// Package parallel runs tests that wait most of the time. It lets more of these tests run in
// parallel than the machine has cores.
package parallel

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Run runs the tests of a package and returns the exit code. It is for TestMain. At most "most"
// parallel tests run at a time, unless the flag -parallel sets another number.
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
